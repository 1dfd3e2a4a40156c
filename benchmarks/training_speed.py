"""Our training steps over the same in PyTorch, as released and tuned.

python benchmarks/training_speed.py

PyTorch's steps are those of benchmarks/peers/, each in a process of its own;
a round runs ours and theirs one after the other. Writes
build/bench/training_speed.json; a part of it with --cases.
"""

from __future__ import annotations

from typing import NamedTuple

import measuring
from absl import app, flags, logging

measuring.prepare_tensorflow()


class Case(NamedTuple):
    """A method on a network, and the aim over each peer."""

    method: str
    network: str
    batch: int
    aims: dict[str, str]


CASES = {
    "adt_exp_wide": Case(
        "adt_exp", "wrn-16-4", 16, {"released": "<= 0.50", "tuned": "<= 0.90"}
    ),
    "adt_exp_small": Case(
        "adt_exp", "wrn-10-1", 64, {"released": "<= 0.50", "tuned": "<= 0.75"}
    ),
    "at_pgd": Case("at_pgd", "wrn-16-4", 64, {"tuned": "<= 0.95"}),
    "adt_exp_am": Case("adt_exp_am", "wrn-16-4", 16, {"tuned": "<= 0.95"}),
    "adt_imp_am": Case("adt_imp_am", "wrn-16-4", 16, {"tuned": "<= 0.95"}),
}

CHOSEN = flags.DEFINE_list("cases", list(CASES), "Which cases to measure.")
ROUNDS = flags.DEFINE_integer("rounds", 9, "Interleaved rounds a case.")
SAMPLES = flags.DEFINE_enum(
    "samples",
    None,
    ["batched", "one_by_one"],
    "How the tuned peer takes its samples; by default the faster way, tried.",
)


def measure(case: Case, rounds: int) -> list[dict]:
    """Times our step and its peers."""
    x, y = measuring.batch_of(case.batch)
    arguments, fields = {}, {}
    if case.method.endswith("_am"):
        # The generator's width that stands to the classifier as in the paper.
        width = measuring.paper_width(case.network)
        arguments = fields = {"width_factor": width}
    if SAMPLES.value:
        fields = fields | {"samples": SAMPLES.value}
    trainer = measuring.trainer_of(case.method, case.network, **arguments)
    peers = {
        variant: measuring.Peer(
            task="train",
            method=case.method,
            variant=variant,
            network=case.network,
            batch=case.batch,
            **fields,
        )
        for variant in case.aims
    }
    works = {"ours": lambda: trainer.train_on_batch(x, y)}
    times = measuring.interleaved(works | peers, rounds)
    rows = []
    for variant, aim in case.aims.items():
        suffix = ""
        if (case.method, variant) == ("adt_exp", "tuned"):
            chosen = peers[variant].chosen["samples"].replace("_", " ")
            suffix = f" (samples {chosen})"
        rows.append(
            measuring.ratio_row(
                f"{case.method} step, {case.network} batch {case.batch}, over "
                f"PyTorch {variant}{suffix}",
                times,
                "ours",
                variant,
                aim=aim,
            )
        )
        peers[variant].close()
    return rows


def main(_) -> None:
    """Measures every case."""
    logging.set_verbosity(logging.ERROR)
    for name in CHOSEN.value:
        rows = measure(CASES[name], ROUNDS.value)
        measuring.write(f"training_speed_{name}", rows)


if __name__ == "__main__":
    app.run(main)
