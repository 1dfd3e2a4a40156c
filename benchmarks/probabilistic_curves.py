"""Measures the probabilistic robustness of the digits' presets.

    python benchmarks/probabilistic_curves.py --examples=150

Prints PR(rho) of Standard, AT-PGD, ADT-EXP and ADT-EXP-AM on the first test
images, from uniform noise to the worst case, and the time of sampling and of
AutoAttack. The output folder keeps a JSON file for each model; a repeated call
continues from there. The target `probabilistic` of adt-reproduce does the same
for trained runs at any scale.
"""

import pathlib

from absl import app, flags

OUTPUT = flags.DEFINE_string("output", "build/curves", "Folder of the files.")
EXAMPLES = flags.DEFINE_integer("examples", 150, "Number of test images.")
SAMPLES = flags.DEFINE_integer("samples", 8192, "Most samples of an image.")
METHODS = flags.DEFINE_list(
    "methods", "standard,at_pgd,adt_exp,adt_exp_am", "Methods of the presets."
)


def main(_) -> None:
    """Measures each preset and prints its table."""
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
        sampling_seconds = sum(seconds[name] for name in report.failures)
        attack_seconds = sum(
            value
            for name, value in seconds.items()
            if name not in ("natural", "PGD-20", *report.failures)
        )
        print(f"\n## {method}\n\n{report.to_markdown()}")
        print(
            f"Sampling took {sampling_seconds:.0f} s, AutoAttack "
            f"{attack_seconds:.0f} s."
        )


if __name__ == "__main__":
    app.run(main)
