"""Compares the time of each method's training step with AT-PGD's.

python benchmarks/method_time.py

Generator and classifier have the paper's ratio of multiplications, about two to
one. In the paper's Figure 7 the ratio of times is about 5 for ADT-EXP and about
0.5 for the amortised methods. Writes build/bench/method_time.json.
"""

from __future__ import annotations

import measuring
from absl import app, flags, logging

measuring.prepare_tensorflow()

NETWORK = flags.DEFINE_string("network", "wrn-16-4", "The classifier.")
BATCH = flags.DEFINE_integer("batch_size", 16, "Number of images of a step.")
ROUNDS = flags.DEFINE_integer("rounds", 5, "Number of rounds.")
METHODS = flags.DEFINE_list("methods", [], "Names of methods; default: all.")


def main(_) -> None:
    """Times every method and writes the ratios."""
    logging.set_verbosity(logging.ERROR)
    from adt_tf import methods

    width = measuring.paper_width(NETWORK.value)
    x, y = measuring.batch_of(BATCH.value)

    def work(name):
        has_generator = "width_factor" in methods.arguments(name)
        arguments = {"width_factor": width} if has_generator else {}
        trainer = measuring.trainer_of(name, NETWORK.value, **arguments)
        return lambda: trainer.train_on_batch(x, y)

    names = METHODS.value or list(methods.list())
    times = measuring.interleaved(
        {name: work(name) for name in {"at_pgd": None} | dict.fromkeys(names)},
        ROUNDS.value,
    )
    measuring.write(
        "method_time",
        [
            measuring.ratio_row(
                f"{name} step over at_pgd's, {NETWORK.value} batch "
                f"{BATCH.value}",
                times,
                name,
                "at_pgd",
            )
            for name in names
        ],
    )


if __name__ == "__main__":
    app.run(main)
