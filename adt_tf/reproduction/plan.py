"""Plans a reproduction, estimates its time and runs it.

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
    """Returns the plan: a line for each step, and the remaining time.

    Args:
        names: Names of the targets.
        study: Study of the targets.
        measure: Whether to measure unknown costs, which takes some seconds for
            each method and network.
    """
    _check(names, study)
    book = costs.Book(study.output, measure=measure)
    lines, planned_steps, total, num_unknown = [], set(), 0.0, 0
    for name in names:
        lines.append(f"{name}: {TARGETS[name].title}")
        for step in list_steps(name, study):
            key = (step.kind, step.name)
            label = f"{step.kind:<8}{step.name:<34}"
            if step.is_done():
                lines.append(f"  done  {label}")
            elif key in planned_steps:
                lines.append(f"        {label} (as above)")
            else:
                estimate = step.estimate(book)
                total += estimate[0] if estimate else 0.0
                num_unknown += not estimate
                time, why = "unknown", ""
                if estimate:
                    time, why = costs.duration(estimate[0]), f"  {estimate[1]}"
                lines.append(f"  to do {label} {time:>9}{why}")
            planned_steps.add(key)
    lines.append(f"In all, about {costs.duration(total)} on this machine.")
    if num_unknown:
        lines[-1] += f" {num_unknown} steps of unknown time are not counted."
    return "\n".join(lines)


def reproduce(names: Sequence[str], study: Study) -> None:
    """Makes the targets in turn; a target that fails does not stop others.

    Args:
        names: Names of the targets.
        study: Study of the targets.
    """
    _check(names, study)
    errors = {}
    for name in names:
        try:
            _make(name, study)
        except Exception as error:
            # Users can correct a ValueError or OSError, so one line is enough.
            if not isinstance(error, ValueError | OSError):
                traceback.print_exc()
            print(f"{name} failed: {error}", flush=True)
            errors[name] = error
    if errors:
        raise ValueError(
            "; ".join(f"{name}: {error}" for name, error in errors.items())
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
        print(f"{name} has none of --rows, so it is not changed")
        return
    target.write(study, name, target)


def _check(names: Sequence[str], study: Study) -> None:
    """Refuses rows and released models that no target has."""
    if released.find(study.released) and not any(
        TARGETS[name].takes_released for name in names
    ):
        raise ValueError(
            "--released needs --target=table1. Received: "
            f"--target={','.join(names)}"
        )
    tables = [TARGETS[n] for n in names if TARGETS[n].is_table_of_runs]
    runs = [run for table in tables for run in table.rows.values() if run]
    if study.rows and tables and not set(study.rows) & set(runs):
        raise ValueError(
            f"--rows must be some of {', '.join(dict.fromkeys(runs))} for "
            f"{', '.join(names)}. Received: {', '.join(study.rows)}"
        )
