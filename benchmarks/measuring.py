"""Shared parts of the benchmarks: interleaved rounds, ratios, peers, tables.

    times = interleaved({"ours": step, "theirs": Peer(...)}, rounds=7)
    rows = [ratio_row("step over theirs", times, "ours", "theirs", aim=0.9)]
    write("training_speed", rows)

A ratio is taken in each round, of times measured one after the other, so that
other work of the machine affects both sides alike. The median over the rounds
is reported, with the quartiles as the spread.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "build" / "bench"
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
JAX_PYTHON = ROOT / ".venv-jax" / "bin" / "python"

INPUT_SHAPE = (32, 32, 3)
EPSILON = 8 / 255


def prepare_tensorflow() -> None:
    """Sets the environment of the scripts; call it before importing TF."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def seconds_of(work: Callable[[], Any]) -> float:
    """Returns the seconds that the work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved(
    works: Mapping[Any, Callable[[], Any] | Peer], rounds: int
) -> dict[Any, list[float]]:
    """Does each work once a round and returns its seconds in each round.

    A round before the first warms up and does not count. A peer measures its
    own seconds.

    Args:
        works: Mapping from a name to a function or a peer.
        rounds: Number of rounds.
    """
    times = {name: [] for name in works}
    for round_number in range(rounds + 1):
        for name, work in works.items():
            is_peer = isinstance(work, Peer)
            seconds = work.run() if is_peer else seconds_of(work)
            if round_number:
                times[name].append(seconds)
    return times


def ratio_row(
    name: str,
    times: Mapping[Any, Sequence[float]],
    numerator: Any,
    denominator: Any,
    *,
    aim: str | None = None,
) -> dict[str, Any]:
    """Returns the median and quartiles of the ratio of two works' seconds."""
    import numpy as np

    ratios = np.array(times[numerator]) / np.array(times[denominator])
    low, ratio, high = np.percentile(ratios, [25, 50, 75])
    return {
        "name": name,
        "ratio": round(float(ratio), 3),
        "spread": [round(float(low), 3), round(float(high), 3)],
        "aim": aim,
        "seconds": {
            str(side): round(float(np.median(times[side])), 4)
            for side in (numerator, denominator)
        },
    }


def value_row(
    name: str, values: Sequence[float], unit: str, *, aim: str | None = None
) -> dict[str, Any]:
    """Returns a row for values with a unit, in the form of `ratio_row`."""
    import numpy as np

    low, value, high = np.percentile(values, [25, 50, 75])
    return {
        "name": f"{name} ({unit})",
        "ratio": round(float(value), 3),
        "spread": [round(float(low), 3), round(float(high), 3)],
        "aim": aim,
    }


def write(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints the rows and writes them to build/bench/<name>.json."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    path = OUTPUT / f"{name}.json"
    path.write_text(json.dumps(list(rows), indent=2) + "\n")
    print(table(rows))
    print(f"Written to {path.relative_to(ROOT)}", flush=True)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the rows as a table in Markdown."""
    lines = [
        "| what | median | quartiles | aim | reached |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        low, high = row["spread"]
        reached = {True: "yes", False: "no", None: ""}[is_reached(row)]
        lines.append(
            f"| {row['name']} | {row['ratio']:.3g} | {low:.3g} to {high:.3g} "
            f"| {row['aim'] or ''} | {reached} |"
        )
    return "\n".join(lines)


def is_reached(row: Mapping[str, Any]) -> bool | None:
    """Tells whether a row reaches its aim, such as "<= 0.9"."""
    if not row["aim"]:
        return None
    relation, value = row["aim"].split()
    below = row["ratio"] <= float(value)
    return below if relation == "<=" else row["ratio"] >= float(value)


class Peer:
    """A process of benchmarks/peers/worker.py that does a piece of work.

    Args:
        python: Interpreter of the peer's environment.
        script: Name of a script of benchmarks/peers that answers as worker.py.
        **fields: Fields of the task, as the script describes them.

    Attributes:
        chosen: Choices that the process made for the task.
    """

    def __init__(
        self,
        *,
        python: pathlib.Path = PEERS_PYTHON,
        script: str = "worker.py",
        **fields: Any,
    ):
        if not python.exists():
            raise FileNotFoundError(
                f"{python.relative_to(ROOT)} does not exist. Run `make bench`, "
                "which creates it, or see the requirements in benchmarks/peers."
            )
        self._process = subprocess.Popen(
            [python, ROOT / "benchmarks" / "peers" / script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.chosen = self._ask(fields)["chosen"]

    def run(self) -> float:
        """Does the work once and returns its own seconds."""
        return float(self.answer()["seconds"])

    def answer(self) -> dict[str, Any]:
        """Does the work once and returns the whole answer."""
        return self._ask({"run": True})

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, fields):
        self._process.stdin.write(json.dumps(fields) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the process ended"}
        if "error" in answer:
            raise RuntimeError(f"The peer failed on {fields}: {answer}")
        return answer


def batch_of(size: int) -> tuple[Any, Any]:
    """Returns random images and labels."""
    import numpy as np

    generator = np.random.default_rng(0)
    x = generator.uniform(size=(size, *INPUT_SHAPE)).astype("float32")
    return x, generator.integers(0, 10, size).astype("int32")


def trainer_of(
    method: str,
    network: str,
    *,
    search_precision: str | None = None,
    **arguments: Any,
) -> Any:
    """Returns a compiled trainer whose weights hardly change.

    Args:
        method: Name of the method.
        network: Name of the network.
        search_precision: Precision of the search: "auto" for the default of a
            run on this CPU, None for float32. Methods without this argument
            ignore it.
        **arguments: Arguments of the method.
    """
    import adt_tf

    if search_precision and "search_precision" in adt_tf.methods.arguments(
        method
    ):
        arguments["search_precision"] = adt_tf.precision.of_search(
            search_precision, adt_tf.networks.get(network)
        )
    if "input_shape" in adt_tf.methods.arguments(method):
        arguments = {"input_shape": INPUT_SHAPE, **arguments}
    parts = adt_tf.methods.get(method, epsilon=EPSILON, **arguments)
    trainer = adt_tf.AdversarialTrainer(
        adt_tf.networks.get(network), parts.attack, parts.loss
    )
    trainer.compile(adt_tf.optimizers.SGD(1e-6, momentum=0.9, l2=2e-4))
    return trainer


@contextlib.contextmanager
def package_at(checkout: str) -> Iterator[None]:
    """Imports adt_tf from another checkout inside the block.

    Objects that are built and run once inside the block keep its code.
    """

    def names():
        return [n for n in sys.modules if n.split(".")[0] == "adt_tf"]

    modules = {name: sys.modules.pop(name) for name in names()}
    sys.path.insert(0, checkout)
    try:
        yield
    finally:
        sys.path.remove(checkout)
        for name in names():
            del sys.modules[name]
        sys.modules.update(modules)


def multiplications(model: Any) -> int:
    """Returns the multiplications of a model's convolutions for one image."""
    import keras

    total = 0
    for layer in model.layers:
        if isinstance(layer, keras.layers.Conv2D):
            _, height, width, _ = layer.output.shape
            total += height * width * layer.kernel.numpy().size
    return total


def paper_width(network: str) -> float:
    """Returns the width factor that keeps the paper's ratio of networks.

    The paper's generator has about twice the multiplications of WRN-28-10, and
    they grow with the square of the width.
    """
    from adt_tf import networks

    share = multiplications(networks.get(network)) / multiplications(
        networks.get("wrn-28-10")
    )
    return share**0.5
