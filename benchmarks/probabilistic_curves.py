"""Probabilistic robustness of the digits' presets, as a table.

    python benchmarks/probabilistic_curves.py --examples=150

Standard, AT-PGD, ADT-EXP and ADT-EXP-AM on the first test images: PR(rho) from
uniform noise to the worst case, with the time that sampling took beside that of
the attacks. Each model's evaluation is a JSON file in the output folder, from
which a repeated call goes on.
"""

import pathlib

from absl import app, flags

OUTPUT = flags.DEFINE_string("output", "build/curves", "Folder of the files.")
EXAMPLES = flags.DEFINE_integer("examples", 150, "Number of test images.")
SAMPLES = flags.DEFINE_integer("samples", 8192, "Samples of an image, at most.")
METHODS = flags.DEFINE_list(
    "methods", "standard,at_pgd,adt_exp,adt_exp_am", "Methods of the presets."
)


def main(_):
    import adt_tf
    from adt_tf import attacks, data, evaluation
    from adt_tf.evaluation import ProbabilisticReport
    from adt_tf.json_files import read_json, write_json

    x, y = data.as_arrays(data.load("digits", split="test"))
    test = x[: EXAMPLES.value], y[: EXAMPLES.value]
    folder = pathlib.Path(OUTPUT.value)
    folder.mkdir(parents=True, exist_ok=True)
    for method in METHODS.value:
        path = folder / f"{method}.json"
        if not path.exists():
            classifier = adt_tf.from_preset(f"digits_small_cnn_{method}")
            worst = [attacks.pgd(0.15), *attacks.autoattack(0.15)]
            evaluation.evaluate_probabilistic(
                classifier,
                test,
                0.15,
                worst,
                max_samples=SAMPLES.value,
                directory=folder,
                write=lambda report, path=path: write_json(
                    path, report.to_dict()
                ),
            )
        report = ProbabilisticReport.from_dict(read_json(path))
        seconds = report.report.seconds
        sampled = sum(seconds[name] for name in report.failures)
        attacked = sum(
            value
            for name, value in seconds.items()
            if name not in ("natural", "PGD-20", *report.failures)
        )
        print(f"\n## {method}\n\n{report.to_markdown()}")
        print(f"Sampling took {sampled:.0f} s, AutoAttack {attacked:.0f} s.")


if __name__ == "__main__":
    app.run(main)
