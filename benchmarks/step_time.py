"""One ADT-EXP training step over its bare cost.

python benchmarks/step_time.py

The bare cost is T compiled input gradients of k * batch images and one
compiled weight gradient of the batch, on the same network: what no
implementation of the method can do without. Both sides are timed in one run,
interleaved; the ratio is the median over the rounds, with its quartiles.
Writes build/step_time.json.
"""

import json
import os
import pathlib
import time

from absl import app, flags

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

CASES = flags.DEFINE_list(
    "cases", ["wrn-10-1:64", "wrn-16-4:16"], "network:batch"
)
ROUNDS = flags.DEFINE_integer("rounds", 9, "Interleaved rounds a case.")
OUTPUT = flags.DEFINE_string("output", "build/step_time.json", "Where to.")
AIM = 1.15


def measure(name: str, batch_size: int, rounds: int) -> dict:
    """Times both sides and returns the ratio."""
    import keras
    import numpy as np
    import tensorflow as tf

    import adt_tf

    classifier = adt_tf.networks.get(name)
    method = adt_tf.methods.adt_exp(8 / 255)
    trainer = adt_tf.AdversarialTrainer(classifier, method.attack, method.loss)
    trainer.compile(keras.optimizers.SGD(1e-6, momentum=0.9))
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(batch_size, 32, 32, 3)).astype("float32")
    y = generator.integers(0, 10, batch_size).astype("int32")
    num_steps, num_samples = method.attack.num_steps, method.attack.num_samples
    many = tf.constant(np.repeat(x, num_samples, axis=0))
    labels = tf.constant(np.repeat(y, num_samples))

    def loss(images, labels, training):
        logits = classifier(images, training=training)
        return tf.reduce_sum(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        )

    @tf.function(autograph=False)
    def input_gradient(images, labels):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(images)
            total = loss(images, labels, training=False)
        return tape.gradient(total, images)

    @tf.function(autograph=False)
    def weight_gradient(images, labels):
        with tf.GradientTape() as tape:
            total = loss(images, labels, training=True)
        return tape.gradient(total, classifier.trainable_variables)

    def bare():
        for _ in range(num_steps):
            gradient = input_gradient(many, labels)
        weights = weight_gradient(tf.constant(x), tf.constant(y))
        return gradient[0, 0, 0, 0].numpy(), weights[0].numpy()

    def step():
        return trainer.train_on_batch(x, y)

    times = {"bare": [], "step": []}
    for round_number in range(rounds + 1):
        for label, run in (("bare", bare), ("step", step)):
            start = time.perf_counter()
            run()
            if round_number:  # the first one compiles
                times[label].append(time.perf_counter() - start)
    ratios = np.array(times["step"]) / np.array(times["bare"])
    low, ratio, high = np.percentile(ratios, [25, 50, 75])
    return {
        "name": f"ADT-EXP step over its bare cost, {name} batch {batch_size}",
        "ratio": round(float(ratio), 3),
        "spread": [round(float(low), 3), round(float(high), 3)],
        "aim": AIM,
        "seconds": {k: round(float(np.median(v)), 3) for k, v in times.items()},
    }


def main(_) -> None:
    """Measures every case, prints a table and writes the JSON."""
    results = []
    for case in CASES.value:
        name, batch_size = case.split(":")
        results.append(measure(name, int(batch_size), ROUNDS.value))
        row = results[-1]
        print(
            f"{row['name']}: {row['ratio']:.3f} (quartiles "
            f"{row['spread'][0]:.3f} to {row['spread'][1]:.3f}, aim <= "
            f"{row['aim']}), step {row['seconds']['step']:.2f} s, bare "
            f"{row['seconds']['bare']:.2f} s",
            flush=True,
        )
    path = pathlib.Path(OUTPUT.value)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"Written to {path}")


if __name__ == "__main__":
    app.run(main)
