"""Answers the requests of a benchmark, a JSON line each.

    serve(prepare)

The first line of the standard input describes a task, which `prepare` turns
into a piece of work; each line {"run": true} does the work once. The answer to
each line is one line on the standard output.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Work = Callable[[], Any]
#: Function from the fields of a task to the work, the choices that were made
#: for it, and its number of images.
Prepare = Callable[[dict[str, Any]], tuple[Work, dict[str, Any], int]]


def timed(work: Work) -> float:
    """Returns the seconds that the work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def fastest(candidates: list[Work]) -> int:
    """Returns the index of the fastest work, the best of three runs each.

    All candidates are run once before, to warm up.
    """
    for candidate in candidates:
        candidate()
    if len(candidates) == 1:
        return 0
    best_times = [float("inf")] * len(candidates)
    for _ in range(3):
        for index, candidate in enumerate(candidates):
            best_times[index] = min(best_times[index], timed(candidate))
    return best_times.index(min(best_times))


def serve(prepare: Prepare) -> None:
    """Answers line by line until the input ends."""
    # Libraries print to the standard output, which belongs to the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    work, num_images = None, 0
    for line in filter(str.strip, sys.stdin):
        try:
            fields = json.loads(line)
            if fields == {"run": True}:
                if work is None:
                    raise ValueError("Nothing is prepared: send a task first.")
                answer = _run(work) | {"images": num_images}
            else:
                work, choices, num_images = prepare(fields)
                answer = {"ready": True, "chosen": choices}
        except Exception as error:
            # The benchmark waits for a line after any error.
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def _run(work: Work) -> dict[str, Any]:
    cpu, start = time.process_time(), time.perf_counter()
    result = work()
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "standing": result if isinstance(result, int) else None,
    }
