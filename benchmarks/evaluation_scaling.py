"""How much faster two processes evaluate than one, each on a core of its own.

    python benchmarks/evaluation_scaling.py --workdir=build/mini/at_pgd \\
      --data_dir=DIR --examples=1000 --attacks=pgd-20,apgd-ce --rounds=3

Runs adt-evaluate in turns as one process on one core, and as two workers of
--distribute=multiworker on two cores. Writes
build/bench/evaluation_scaling.json: the time of one over the time of two, of
the attacks alone (as evaluation.json has it, tracing included) and of the whole
command with its imports; and the number of verdicts in which they differ.
"""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import measuring
from absl import app, flags

WORKDIR = flags.DEFINE_string(
    "workdir", None, "Directory of the run.", required=True
)
DATA_DIR = flags.DEFINE_string("data_dir", None, "Directory of the data.")
EXAMPLES = flags.DEFINE_integer("examples", 1000, "Number of test examples.")
ATTACKS = flags.DEFINE_string("attacks", "pgd-20,apgd-ce", "Names of attacks.")
ROUNDS = flags.DEFINE_integer("rounds", 3, "Rounds of both, in turns.")


def main(_) -> None:
    """Runs both in turns."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("error: This needs two cores. Received: one.")
    attacks = {"one": [], "two": []}
    commands = {"one": [], "two": []}
    differences = []
    for _ in range(ROUNDS.value):
        outcomes = {}
        for name, used in (("one", cores[:1]), ("two", cores[:2])):
            start = time.perf_counter()
            values = _evaluated(used)
            commands[name].append(time.perf_counter() - start)
            seconds = values["seconds"]
            attacks[name].append(sum(seconds[k] for k in values["attacks"]))
            outcomes[name] = "".join(values["outcomes"].values())
        differences.append(
            sum(
                one != two
                for one, two in zip(
                    outcomes["one"], outcomes["two"], strict=True
                )
            )
        )
    case = f"{ATTACKS.value}, {EXAMPLES.value} images of {WORKDIR.value}"
    rows = [
        measuring.ratio_row(
            f"One evaluation process over two, {case}",
            attacks,
            "one",
            "two",
            aim=">= 1.8",
        ),
        measuring.ratio_row(
            f"The same with imports, {case}", commands, "one", "two"
        ),
        measuring.value_row(
            f"Verdicts of two processes that differ, {case}",
            differences,
            "verdicts",
            aim="<= 0",
        ),
    ]
    measuring.write("evaluation_scaling", rows)


def _evaluated(cores: list[int]) -> dict:
    """Evaluates with a process on each core; returns the JSON."""
    sockets = [socket.socket() for _ in cores]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "evaluation.json"
        command = [
            "taskset",
            "-c",
            "",
            sys.executable,
            str(measuring.ROOT / "scripts" / "evaluate.py"),
            f"--workdir={WORKDIR.value}",
            f"--test_examples={EXAMPLES.value}",
            f"--attacks={ATTACKS.value}",
            f"--output={output}",
        ]
        if DATA_DIR.value:
            command.append(f"--data_dir={DATA_DIR.value}")
        processes = []
        for index, core in enumerate(cores):
            environment = dict(os.environ)
            command[2] = str(core)
            flag = []
            if len(cores) > 1:
                flag = ["--distribute=multiworker"]
                task = {"type": "worker", "index": index}
                cluster = {"worker": addresses}
                environment["TF_CONFIG"] = json.dumps(
                    {"cluster": cluster, "task": task}
                )
            # Not a pipe, which a progress bar would fill up.
            with open(f"{folder}/{index}.log", "w") as log:
                processes.append(
                    subprocess.Popen(
                        [*command, *flag],
                        env=environment,
                        stdout=subprocess.DEVNULL,
                        stderr=log,
                    )
                )
        for index, process in enumerate(processes):
            if process.wait():
                text = pathlib.Path(folder, f"{index}.log").read_text()
                raise SystemExit(f"error: {text}")
        return json.loads(output.read_text())


if __name__ == "__main__":
    app.run(main)
