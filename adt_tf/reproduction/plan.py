"""What a reproduction has to do, how long it takes, and doing it.

print(describe(["table1", "figure2"], study))
reproduce(["table1", "figure2"], study)
"""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Sequence

from adt_tf.reproduction import costs, released
from adt_tf.reproduction.catalogue import TARGETS
from adt_tf.reproduction.steps import list_steps
from adt_tf.reproduction.study import Study


def describe(
    names: Sequence[str], study: Study, *, measure: bool = True
) -> str:
    """Returns the plan, a line a step, with the time that is left.

    Args:
        names: Names of targets.
        study: Where they are made.
        measure: Whether unknown costs are measured, which takes seconds for
            each method and network.
    """
    _check(names, study)
    book = costs.Book(study.output, measure=measure)
    lines, seen, total, unknown = [], set(), 0.0, 0
    for name in names:
        lines.append(f"{name}: {TARGETS[name].title}")
        for step in list_steps(name, study):
            key = (step.kind, step.name)
            label = f"{step.kind:<8}{step.name:<34}"
            if step.is_done():
                lines.append(f"  done  {label}")
            elif key in seen:
                lines.append(f"        {label} (as above)")
            else:
                estimate = step.estimate(book)
                total += estimate[0] if estimate else 0.0
                unknown += not estimate
                time, why = "unknown", ""
                if estimate:
                    time, why = costs.duration(estimate[0]), f"  {estimate[1]}"
                lines.append(f"  to do {label} {time:>9}{why}")
            seen.add(key)
    lines.append(f"In all, about {costs.duration(total)} on this machine.")
    if unknown:
        lines[-1] += f" {unknown} steps of unknown time are not counted."
    return "\n".join(lines)


def reproduce(names: Sequence[str], study: Study) -> None:
    """Makes targets, one after another; a failing one does not stop others."""
    _check(names, study)
    failed = {}
    for name in names:
        try:
            _make(name, study)
        except Exception as error:
            # One line tells what users can mend, a traceback what they cannot.
            if not isinstance(error, ValueError | OSError):
                traceback.print_exc()
            print(f"{name} failed: {error}", flush=True)
            failed[name] = error
    if failed:
        raise ValueError(
            "; ".join(f"{name}: {error}" for name, error in failed.items())
        )


def _make(name: str, study: Study) -> None:
    target = TARGETS[name]
    print(f"== {name}: {target.title} ({study.scale.name})", flush=True)
    steps = list_steps(name, study)
    for number, step in enumerate(steps, start=1):
        place = f"[{name} {number}/{len(steps)}]"
        if step.is_done():
            print(f"{place} {step.kind} {step.name}: there already")
            continue
        print(f"{place} {step.kind} {step.name}", flush=True)
        step.work()
    if not target.is_table_of_runs:
        study = dataclasses.replace(study, rows=None)
    elif not steps:
        print(f"{name} has none of --rows: it is left as it is")
        return
    target.write(study, name, target)


def _check(names: Sequence[str], study: Study) -> None:
    """Refuses rows, and released models, that no target asked for has."""
    if released.find(study.released) and not any(
        TARGETS[name].takes_released for name in names
    ):
        raise ValueError(
            "--released belongs to Table 1: give --target=table1. Received: "
            f"--target={','.join(names)}"
        )
    tables = [TARGETS[n] for n in names if TARGETS[n].is_table_of_runs]
    known = [run for table in tables for run in table.rows.values() if run]
    if study.rows and tables and not set(study.rows) & set(known):
        raise ValueError(
            f"--rows must be some of {', '.join(dict.fromkeys(known))} for "
            f"{', '.join(names)}. Received: {', '.join(study.rows)}"
        )
