"""Compares the time of our training steps with PyTorch's and JAX's.

python benchmarks/training_speed.py

The peers' steps (benchmarks/peers) run in processes of their own; a round runs
our step and all peers' in turn. PyTorch is measured as released, tuned (eager),
tuned and compiled (the faster of torch.compile's modes default and
max-autotune), and compiled under bfloat16 autocast; JAX with jit, if .venv-jax
exists (benchmarks/peers/requirements-jax.txt). Ours is measured in float32, and
for the compiled peers also with the precision of the search that a run has by
default on this CPU. Writes build/bench/training_speed_*.json; --cases and
--peers select a part.
"""

from __future__ import annotations

from typing import NamedTuple

import measuring
from absl import app, flags, logging

measuring.prepare_tensorflow()


class Case(NamedTuple):
    """A method on a network, and the aim for each peer.

    Attributes:
        method: Name of the method.
        network: Name of the network.
        batch: Number of images of a step.
        aims: Mapping from a peer to the aim of our float32 step, or None.
        default_aims: Mapping from a peer to the aim of our default step.
    """

    method: str
    network: str
    batch: int
    aims: dict[str, str | None]
    default_aims: dict[str, str | None] = {}


PEERS = {
    "released": {"variant": "released"},
    "tuned": {"variant": "tuned"},
    "compiled": {"variant": "tuned", "compile": "best"},
    "bfloat16": {"variant": "tuned", "compile": "best", "bfloat16": True},
    "jax": {"python": measuring.JAX_PYTHON, "script": "jax_worker.py"},
}
NAMES = {
    "released": "PyTorch released",
    "tuned": "PyTorch tuned",
    "compiled": "PyTorch compiled",
    "bfloat16": "PyTorch compiled in bfloat16",
    "jax": "JAX",
}

CASES = {
    "adt_exp_wide": Case(
        "adt_exp",
        "wrn-16-4",
        16,
        {
            "released": "<= 0.50",
            "tuned": "<= 0.70",
            "compiled": "<= 0.75",
            "jax": "<= 0.60",
        },
        {"compiled": "<= 0.80", "bfloat16": "<= 0.80"},
    ),
    "adt_exp_small": Case(
        "adt_exp",
        "wrn-10-1",
        64,
        {
            "released": "<= 0.50",
            "tuned": "<= 0.70",
            "compiled": "<= 0.80",
            "jax": "<= 0.60",
        },
        {"compiled": "<= 0.85", "bfloat16": "<= 0.85"},
    ),
    "at_pgd": Case(
        "at_pgd",
        "wrn-16-4",
        64,
        {"tuned": "<= 0.95", "compiled": "<= 0.80"},
        {"bfloat16": "<= 0.80"},
    ),
    **{
        method: Case(
            method,
            "wrn-16-4",
            16,
            {"tuned": "<= 0.95", "compiled": "<= 0.85"},
        )
        for method in ("adt_exp_am", "adt_imp_am")
    },
}

SELECTED_CASES = flags.DEFINE_list("cases", list(CASES), "Cases to measure.")
SELECTED_PEERS = flags.DEFINE_list("peers", list(PEERS), "Peers to measure.")
ROUNDS = flags.DEFINE_integer("rounds", 9, "Number of rounds of a case.")
SAMPLES = flags.DEFINE_enum(
    "samples",
    None,
    ["batched", "one_by_one"],
    "How the tuned peer computes its samples; by default the faster way.",
)


def peers_of(case: Case, fields: dict) -> dict[str, measuring.Peer]:
    """Starts the selected peers of a case that are installed."""
    peers = {}
    for name in {**case.aims, **case.default_aims}:
        if name not in SELECTED_PEERS.value:
            continue
        own = PEERS[name]
        if not own.get("python", measuring.PEERS_PYTHON).exists():
            print(f"{NAMES[name]} is not installed: left out.", flush=True)
            continue
        peers[name] = measuring.Peer(
            task="train",
            method=case.method,
            network=case.network,
            batch=case.batch,
            **own,
            **fields,
        )
    return peers


def measure(case: Case, rounds: int) -> list[dict]:
    """Times our steps and their peers."""
    x, y = measuring.batch_of(case.batch)
    arguments, fields = {}, {}
    if case.method.endswith("_am"):
        # The width at which generator and classifier have the paper's ratio.
        width = measuring.paper_width(case.network)
        arguments = fields = {"width_factor": width}
    if SAMPLES.value:
        fields = fields | {"samples": SAMPLES.value}
    peers = peers_of(case, fields)
    trainers = {
        "ours": measuring.trainer_of(case.method, case.network, **arguments)
    }
    if case.default_aims:
        trainers["ours by default"] = measuring.trainer_of(
            case.method, case.network, search_precision="auto", **arguments
        )
    works = {
        name: lambda trainer=trainer: trainer.train_on_batch(x, y)
        for name, trainer in trainers.items()
    }
    times = measuring.interleaved(works | peers, rounds)
    rows = []
    for side, aims in (
        ("ours", case.aims),
        ("ours by default", case.default_aims),
    ):
        suffix = ""
        if side != "ours" and aims:
            format = trainers[side].attack.gradient.precision
            suffix = f", ours by default (search in {format})"
        for name, aim in aims.items():
            if name not in peers:
                continue
            choices = [
                str(choice).replace("_", " ")
                for choice in peers[name].chosen.values()
                if choice not in ("best", "none")
            ]
            remark = f" ({', '.join(choices)})" if choices else ""
            rows.append(
                measuring.ratio_row(
                    f"{case.method} step, {case.network} batch {case.batch}"
                    f"{suffix}, over {NAMES[name]}{remark}",
                    times,
                    side,
                    name,
                    aim=aim,
                )
            )
    for peer in peers.values():
        peer.close()
    return rows


def main(_) -> None:
    """Measures every case."""
    logging.set_verbosity(logging.ERROR)
    for name in SELECTED_CASES.value:
        rows = measure(CASES[name], ROUNDS.value)
        measuring.write(f"training_speed_{name}", rows)


if __name__ == "__main__":
    app.run(main)
