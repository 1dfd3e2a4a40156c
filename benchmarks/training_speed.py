"""Our training steps over the same in PyTorch and JAX, in several forms.

python benchmarks/training_speed.py

The peers' steps are those of benchmarks/peers/, each in a process of its own;
a round runs ours and theirs one after the other. PyTorch comes as released,
tuned (eager), tuned and compiled (the faster of torch.compile's modes default
and max-autotune), and compiled in bfloat16 autocast; JAX by jit, where
.venv-jax is (benchmarks/peers/requirements-jax.txt). Ours is in float32
against the first three and JAX, and against the compiled ones once more in the
format that a run on this CPU searches in by default. Writes
build/bench/training_speed_*.json; a part of it with --cases and --peers.
"""

from __future__ import annotations

from typing import NamedTuple

import measuring
from absl import app, flags, logging

measuring.prepare_tensorflow()


class Case(NamedTuple):
    """A method on a network, and the aim over each peer.

    Attributes:
        method: Name of the method.
        network: Name of the network.
        batch: Images of a step.
        aims: Aims of our float32 by the peer's name, or None.
        default_aims: Aims of our default format, likewise.
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
    "adt_exp_am": Case(
        "adt_exp_am",
        "wrn-16-4",
        16,
        {"tuned": "<= 0.95", "compiled": "<= 0.85"},
    ),
    "adt_imp_am": Case(
        "adt_imp_am",
        "wrn-16-4",
        16,
        {"tuned": "<= 0.95", "compiled": "<= 0.85"},
    ),
}

CHOSEN = flags.DEFINE_list("cases", list(CASES), "Which cases to measure.")
CHOSEN_PEERS = flags.DEFINE_list("peers", list(PEERS), "Beside which peers.")
ROUNDS = flags.DEFINE_integer("rounds", 9, "Interleaved rounds a case.")
SAMPLES = flags.DEFINE_enum(
    "samples",
    None,
    ["batched", "one_by_one"],
    "How the tuned peer takes its samples; by default the faster way, tried.",
)


def peers_of(case: Case, fields: dict) -> dict[str, measuring.Peer]:
    """Starts the peers of a case that are asked for and installed."""
    peers = {}
    for name in {**case.aims, **case.default_aims}:
        if name not in CHOSEN_PEERS.value:
            continue
        own = PEERS[name]
        if not own.get("python", measuring.PEERS_PYTHON).exists():
            print(f"{NAMES[name]} is not installed, and left out.", flush=True)
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
        # The generator's width that stands to the classifier as in the paper.
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
        if side != "ours":
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
            chosen = f" ({', '.join(choices)})" if choices else ""
            rows.append(
                measuring.ratio_row(
                    f"{case.method} step, {case.network} batch {case.batch}"
                    f"{suffix}, over {NAMES[name]}{chosen}",
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
    for name in CHOSEN.value:
        rows = measure(CASES[name], ROUNDS.value)
        measuring.write(f"training_speed_{name}", rows)


if __name__ == "__main__":
    app.run(main)
