"""One training step of each method over one of AT-PGD.

python benchmarks/method_time.py

The generator is as wide as it must be to stand to the classifier as in the
paper, where it has about twice the multiplications of WRN-28-10. The paper's
Figure 7 has ADT-EXP at about 5 and the amortised methods at about 0.5. Writes
build/bench/method_time.json.
"""

from __future__ import annotations

import measuring
from absl import app, flags, logging

measuring.prepare_tensorflow()

NETWORK = flags.DEFINE_string("network", "wrn-16-4", "The classifier.")
BATCH = flags.DEFINE_integer("batch_size", 16, "Images a step.")
ROUNDS = flags.DEFINE_integer("rounds", 5, "Interleaved rounds.")
METHODS = flags.DEFINE_list("methods", [], "Which methods; by default all.")


def main(_) -> None:
    """Times every method and writes the ratios."""
    logging.set_verbosity(logging.ERROR)
    from adt_tf import methods

    width = measuring.paper_width(NETWORK.value)
    x, y = measuring.batch_of(BATCH.value)

    def work(name):
        wide = "width_factor" in methods.arguments(name)
        arguments = {"width_factor": width} if wide else {}
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
