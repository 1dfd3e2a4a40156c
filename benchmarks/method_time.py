"""One training step of each method over one of AT-PGD.

python benchmarks/method_time.py

The generator is as wide as it must be to stand to the classifier as in the
paper, where it has about twice the multiplications of WRN-28-10. All methods
are timed in one run, interleaved; a ratio is the median over the rounds, with
its quartiles. The paper's Figure 7 has ADT-EXP at about 5 and the amortised
methods at about 0.5. Writes build/method_time.json.
"""

import json
import os
import pathlib
import time

from absl import app, flags, logging

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

NETWORK = flags.DEFINE_string("network", "wrn-16-4", "The classifier.")
BATCH = flags.DEFINE_integer("batch_size", 16, "Images a step.")
ROUNDS = flags.DEFINE_integer("rounds", 5, "Interleaved rounds.")
OUTPUT = flags.DEFINE_string("output", "build/method_time.json", "Where to.")

INPUT_SHAPE = (32, 32, 3)
AIMS = {"adt_exp": 5.0, "adt_exp_am": 0.5, "adt_imp_am": 0.5}


def multiplications(model) -> int:
    """Counts those of the convolutions, for one image."""
    import keras

    total = 0
    for layer in model.layers:
        if isinstance(layer, keras.layers.Conv2D):
            _, height, width, _ = layer.output.shape
            total += height * width * layer.kernel.numpy().size
    return total


def paper_width(classifier) -> float:
    """The generator's width factor that keeps the paper's proportion."""
    from adt_tf import networks

    share = multiplications(classifier) / multiplications(
        networks.get("wrn-28-10")
    )
    # Multiplications grow with the square of the width.
    return share**0.5


def main(_) -> None:
    """Times every method and writes the ratios."""
    logging.set_verbosity(logging.ERROR)
    import keras
    import numpy as np

    import adt_tf
    from adt_tf import methods

    width = paper_width(adt_tf.networks.get(NETWORK.value))
    print(f"{NETWORK.value}, batch {BATCH.value}, generator width {width:.3f}")
    trainers = {}
    for name in methods.list():
        arguments = {"epsilon": 8 / 255}
        if "input_shape" in methods.arguments(name):
            arguments |= {"input_shape": INPUT_SHAPE, "width_factor": width}
        method = methods.get(name, **arguments)
        trainers[name] = adt_tf.AdversarialTrainer(
            adt_tf.networks.get(NETWORK.value), method.attack, method.loss
        )
        trainers[name].compile(keras.optimizers.SGD(1e-6, momentum=0.9))
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(BATCH.value, *INPUT_SHAPE)).astype("float32")
    y = generator.integers(0, 10, BATCH.value).astype("int32")
    times = {name: [] for name in trainers}
    for round_number in range(ROUNDS.value + 1):
        for name, trainer in trainers.items():
            start = time.perf_counter()
            trainer.train_on_batch(x, y)
            if round_number:  # the first one compiles
                times[name].append(time.perf_counter() - start)
    base = np.array(times["at_pgd"])
    results = []
    for name, values in times.items():
        low, ratio, high = np.percentile(np.array(values) / base, [25, 50, 75])
        results.append(
            {
                "name": f"{name} step over AT-PGD's, {NETWORK.value}",
                "ratio": round(float(ratio), 3),
                "spread": [round(float(low), 3), round(float(high), 3)],
                "aim": AIMS.get(name),
                "seconds": round(float(np.median(values)), 3),
            }
        )
        print(
            f"{name:<12} {ratio:6.2f} (quartiles {low:.2f} to {high:.2f}), "
            f"{np.median(values):.3f} s"
        )
    path = pathlib.Path(OUTPUT.value)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"Written to {path}")


if __name__ == "__main__":
    app.run(main)
