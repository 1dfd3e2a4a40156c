"""Compares an ADT-EXP training step with its gradients and the peak speed.

python benchmarks/step_time.py

The gradients alone are T compiled input gradients of k * batch images and one
compiled weight gradient of the batch, on the same network. The peak speed is
the speed of a large matrix product; the inner loop's share of it counts the
multiplications of the convolutions, forward and backward to the input. The
inner loop is also timed without splitting the batch into halves. Writes
build/bench/step_time.json.

    git worktree add /tmp/before HEAD~1
    python benchmarks/step_time.py --before=/tmp/before

also compares the step with the step of another checkout, in the same rounds.
"""

from __future__ import annotations

import copy

import measuring
from absl import app, flags

measuring.prepare_tensorflow()

CASES = flags.DEFINE_list(
    "cases", ["wrn-10-1:64", "wrn-16-4:16"], "network:batch"
)
ROUNDS = flags.DEFINE_integer("rounds", 7, "Number of rounds of a case.")
BEFORE = flags.DEFINE_string("before", None, "Another checkout to compare.")
MATRIX = 3000


def bare_cost(classifier, attack, x, y):
    """Returns a function that computes the gradients alone."""
    import numpy as np
    import tensorflow as tf

    many = tf.constant(np.repeat(x, attack.num_samples, axis=0))
    labels = tf.constant(np.repeat(y, attack.num_samples))
    x, y = tf.constant(x), tf.constant(y)

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
        for _ in range(attack.num_steps):
            gradient = input_gradient(many, labels)
        weights = weight_gradient(x, y)
        return gradient[0, 0, 0, 0].numpy(), weights[0].numpy()

    return bare


def inner_loop(classifier, attack, x, y):
    """Returns a function that solves the inner problem."""
    import tensorflow as tf

    from adt_tf import seeds

    x, y, seed = tf.constant(x), tf.constant(y), seeds.make(0)

    @tf.function(autograph=False)
    def solve(x, y, seed):
        return attack.solve(classifier, x, y, seed=seed)

    return lambda: solve(x, y, seed)["mu"][0, 0, 0, 0].numpy()


def as_a_whole(attack):
    """Returns the attack with an objective that does not split a batch."""
    from adt_tf import objectives

    def objective(*arguments, **settings):
        return attack.objective(*arguments, **settings)

    objective.couples_examples = True
    together = copy.copy(attack)
    together.objective = objectives.get(objective)
    return together


def step_of(checkout: str, name: str, x, y):
    """Returns a training step of another checkout."""
    with measuring.package_at(checkout):
        trainer = measuring.trainer_of("adt_exp", name)
        trainer.train_on_batch(x, y)
    return lambda: trainer.train_on_batch(x, y)


def measure(
    name: str, batch_size: int, rounds: int, before: str | None
) -> list[dict]:
    """Times one case and returns its rows."""
    import numpy as np
    import tensorflow as tf

    x, y = measuring.batch_of(batch_size)
    trainer = measuring.trainer_of("adt_exp", name)
    classifier, attack = trainer.classifier, trainer.attack
    matrix = tf.random.stateless_normal([MATRIX, MATRIX], [0, 0])
    product = tf.function(lambda a: tf.matmul(a, a), autograph=False)
    works = {
        "bare": bare_cost(classifier, attack, x, y),
        "step": lambda: trainer.train_on_batch(x, y),
        "inner": inner_loop(classifier, attack, x, y),
        "whole": inner_loop(classifier, as_a_whole(attack), x, y),
        "product": lambda: product(matrix)[0, 0].numpy(),
    }
    if before:
        works["before"] = step_of(before, name, x, y)
    times = measuring.interleaved(works, rounds)
    images = attack.num_steps * attack.num_samples * batch_size
    # The backward pass to the input costs as much as the forward pass.
    work = 2 * images * measuring.multiplications(classifier)
    rates = {
        "inner": work / np.array(times["inner"]),
        "product": MATRIX**3 / np.array(times["product"]),
    }
    case = f"{name} batch {batch_size}"
    rows = [
        measuring.ratio_row(
            f"adt_exp step over its bare gradients, {case}",
            times,
            "step",
            "bare",
            aim="<= 1.05",
        ),
        measuring.value_row(
            f"adt_exp inner loop, share of a matrix product's speed, {case}",
            rates["inner"] / rates["product"],
            "ratio",
        ),
        measuring.ratio_row(
            f"adt_exp inner loop, halves over the whole batch, {case}",
            times,
            "inner",
            "whole",
        ),
    ]
    if before:
        rows.append(
            measuring.ratio_row(
                f"adt_exp step over the step of {before}, {case}",
                times,
                "step",
                "before",
            )
        )
    return rows


def main(_) -> None:
    """Measures every case."""
    rows = []
    for case in CASES.value:
        name, batch_size = case.split(":")
        rows += measure(name, int(batch_size), ROUNDS.value, BEFORE.value)
    measuring.write("step_time", rows)


if __name__ == "__main__":
    app.run(main)
