"""Measures memory and start-up times, each in a new process.

python benchmarks/resources.py

Peak memory is the increase over the memory of the process with its networks
built, so that TensorFlow's own size is not counted. Writes
build/bench/resources.json.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import measuring
from absl import app, flags

measuring.prepare_tensorflow()

ROUNDS = flags.DEFINE_integer("rounds", 3, "Number of processes of a kind.")
TASK = flags.DEFINE_string("task", None, "Task of a new process (internal).")
ARGUMENTS = flags.DEFINE_string("arguments", "{}", "Arguments of the task.")


def megabytes() -> float:
    """Returns the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def first_steps(network: str, batch: int, **arguments) -> dict:
    """Takes two steps; returns their seconds and the increase of memory."""
    x, y = measuring.batch_of(batch)
    trainer = measuring.trainer_of("adt_exp", network, **arguments)
    before = megabytes()
    first, second = (
        measuring.seconds_of(lambda: trainer.train_on_batch(x, y))
        for _ in range(2)
    )
    return {
        "first": first,
        "compile": first - second,
        "memory": megabytes() - before,
    }


def first_batch() -> dict:
    """Returns the time to the first batch of 50,000 images."""
    import numpy as np

    from adt_tf import data

    shape = (50_000, *measuring.INPUT_SHAPE)
    images = np.random.default_rng(0).integers(0, 256, shape, dtype="uint8")
    source = data.ImageData(images, np.arange(50_000) % 10, 10, "random")
    start = time.perf_counter()
    pipeline = data.train_pipeline(source, batch_size=64, seed=0, augment=True)
    next(iter(pipeline))
    return {"seconds": time.perf_counter() - start}


TASKS = {"first_steps": first_steps, "first_batch": first_batch}


def in_new_process(task: str, **arguments) -> dict:
    """Runs a task in a new process and returns its answer."""
    command = [sys.executable, __file__, f"--task={task}"]
    command.append(f"--arguments={json.dumps(arguments)}")
    result = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(result.stdout.splitlines()[-1])


def help_seconds() -> float:
    """Returns the seconds of scripts/train.py --help."""
    command = [sys.executable, "scripts/train.py", "--help"]
    return measuring.seconds_of(
        lambda: subprocess.run(
            command, check=False, cwd=measuring.ROOT, capture_output=True
        )
    )


def main(_) -> None:
    """Measures all resources, or runs the task of --task."""
    if TASK.value:
        answer = TASKS[TASK.value](**json.loads(ARGUMENTS.value))
        print(json.dumps(answer))
        return
    rounds = range(ROUNDS.value)
    memory = {
        "k = 5": {"num_samples": 5},
        "k = 20": {"num_samples": 20},
        "k = 20, sample_chunk = 5": {"num_samples": 20, "sample_chunk": 5},
    }
    megabytes_of = {name: [] for name in memory}
    for _ in rounds:
        for name, arguments in memory.items():
            small = {"network": "wrn-10-1", "batch": 64, "num_steps": 2}
            answer = in_new_process("first_steps", **small, **arguments)
            megabytes_of[name].append(answer["memory"])
    starts = [
        in_new_process("first_steps", network="wrn-16-4", batch=16)
        for _ in rounds
    ]
    batches = [in_new_process("first_batch")["seconds"] for _ in rounds]
    rows = [
        measuring.value_row(
            "peak memory of a step, k = 5", megabytes_of["k = 5"], "MB"
        )
    ]
    for name, aim in {
        "k = 20": None,
        "k = 20, sample_chunk = 5": "<= 1.1",
    }.items():
        row = measuring.ratio_row(
            f"peak memory of a step, {name}, over k = 5",
            megabytes_of,
            name,
            "k = 5",
            aim=aim,
        )
        row["megabytes"] = row.pop("seconds")
        rows.append(row)
    rows += [
        measuring.value_row(
            "first adt_exp step, wrn-16-4 batch 16",
            [start["first"] for start in starts],
            "s",
            aim="<= 20",
        ),
        measuring.value_row(
            "of it tracing and compiling",
            [start["compile"] for start in starts],
            "s",
        ),
        measuring.value_row("time to the first batch", batches, "s"),
        measuring.value_row(
            "scripts/train.py --help",
            [help_seconds() for _ in rounds],
            "s",
            aim="<= 1.0",
        ),
    ]
    measuring.write("resources", rows)


if __name__ == "__main__":
    app.run(main)
