"""What a reproduction has to do, how long it takes, and doing it.

    print(describe(["table1", "figure2"], study))
    reproduce(["table1", "figure2"], study)

A target is steps: training its rows, attacking them, measuring its parts. A
step that has been done is not done again, whichever target asked for it.
"""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from adt_tf.reproduction import costs, evaluations, runs
from adt_tf.reproduction.costs import Book
from adt_tf.reproduction.study import Study
from adt_tf.reproduction.targets import TARGETS

_TRAIN_SIZES = {
    "cifar10": 50_000,
    "cifar100": 50_000,
    "svhn_cropped": 73_257,
    "digits": 1_297,
}
_TEST_SIZES = {"svhn_cropped": 26_032, "digits": 500}


@dataclasses.dataclass(frozen=True)
class Step:
    """Something to do, once.

    Attributes:
        kind: "train", "attack" or "measure".
        name: What.
        is_done: Whether it is there already.
        work: Does it.
        estimate: From the known costs to seconds, and how they come about.
    """

    kind: str
    name: str
    is_done: Callable[[], bool]
    work: Callable[[], Any]
    estimate: Callable[[Prices], tuple[float, str] | None]


class Prices:
    """Costs from a book; measured, if that is allowed, where it has none."""

    def __init__(self, study: Study, *, measure: bool):
        self._book = Book(study.output)
        self._measure = measure

    def step(self, config: dict[str, Any]) -> costs.Cost | None:
        """Of a training step."""
        found = self._book.step(config)
        if found is None and self._measure:
            print(
                f"Timing a step of {config['method']} on {config['network']}",
                flush=True,
            )
            return self._book.measure_step(config)
        return found

    def gradient(self, config: dict[str, Any]) -> costs.Cost | None:
        """Of a gradient of one image."""
        found = self._book.gradient(config["network"])
        if found is None and self._measure:
            return self._book.measure_gradient(config)
        return found


def steps(name: str, study: Study) -> list[Step]:
    """Everything that a target needs, in order."""
    target, found = TARGETS[name], []
    rows = target.rows
    if target.is_table_of_runs:
        rows = study.chosen(rows)
    seeds = study.seeds[:1] if target.figure else study.seeds
    for run in filter(None, rows.values()):
        for seed in seeds:
            if target.trained:
                found.append(_train(study, run, seed))
            if target.protocol:
                found.append(_attack(study, run, seed, target.protocol))
    if target.figure:
        found += [
            _measure(study, part)
            for part in target.figure.parts(study, target.rows)
        ]
    return found


def _train(study: Study, run: str, seed: int) -> Step:
    def estimate(prices):
        config = study.config(run, seed)
        cost = prices.step(config)
        epochs = config["epochs"] - runs.epochs_done(study.workdir(run, seed))
        count = epochs * _steps_per_epoch(config)
        return cost and (
            count * cost.seconds,
            f"{count} steps of {cost.seconds:.3g} s, {cost.source}",
        )

    return Step(
        "train",
        study.workdir(run, seed).name,
        lambda: runs.is_trained(study, run, seed),
        lambda: runs.train(study, run, seed),
        estimate,
    )


def _attack(study: Study, run: str, seed: int, protocol: str) -> Step:
    scale = study.scale
    chosen = scale.protocols[protocol]

    def estimate(prices):
        config = study.config(run, seed)
        cost = prices.gradient(config)
        if cost is None:
            return None
        count = chosen.test_examples or _TEST_SIZES.get(
            config["dataset"], 10_000
        )
        each = sum(map(costs.gradients_of, chosen.attacks.values()))
        seconds = count * each * cost.seconds
        said = f"at most {count} x {each:.0f} gradients of {cost.seconds:.3g} s"
        for attack in ("exp-am", "imp-am"):
            if attack in chosen.attacks.values():
                twin = study.config(f"adt_{attack.replace('-', '_')}", seed)
                step = prices.step(twin)
                if step is None:
                    return None
                epochs = scale.attack_epochs
                seconds += epochs * _steps_per_epoch(config) * step.seconds
                said += f"; {attack}'s generator {epochs} epochs"
        return seconds, said

    return Step(
        "attack",
        f"{study.workdir(run, seed).name} by {protocol}",
        lambda: evaluations.is_evaluated(study, run, seed, protocol),
        lambda: evaluations.evaluate(study, run, seed, protocol),
        estimate,
    )


def _measure(study: Study, part: Any) -> Step:
    def estimate(prices):
        config = study.config((part.runs or ("at_pgd",))[0], study.seeds[0])
        if part.steps:
            config = config | {
                k: v
                for k, v in study.scale.timing.items()
                if config[k] is not None
            }
            cost = prices.step(config)
            # All five methods together take some eight times AT-PGD's step.
            return cost and (
                8 * part.steps * cost.seconds,
                f"{part.steps} rounds of steps",
            )
        cost = prices.gradient(config)
        return cost and (
            part.gradients * cost.seconds,
            f"{part.gradients:.0f} gradients of {cost.seconds:.3g} s",
        )

    return Step(
        "measure",
        part.name,
        lambda: part.is_there(study),
        lambda: part.load(study),
        estimate,
    )


def _steps_per_epoch(config: dict[str, Any]) -> int:
    size = config["train_examples"]
    if size is None:
        size = _TRAIN_SIZES[config["dataset"]] - config["validation_examples"]
    return size // config["batch_size"]


def describe(
    names: Sequence[str], study: Study, *, measure: bool = True
) -> str:
    """Returns the plan, a line a step, with the time that is left.

    Args:
        names: Of targets.
        study: Where they are made.
        measure: Whether unknown costs are measured, which takes seconds for
            each method and network.
    """
    _check_rows(names, study)
    prices = Prices(study, measure=measure)
    lines, seen, total, unknown = [], set(), 0.0, 0
    for name in names:
        lines.append(f"{name}: {TARGETS[name].title}")
        for step in steps(name, study):
            key = (step.kind, step.name)
            label = f"{step.kind:<8}{step.name:<34}"
            if step.is_done():
                lines.append(f"  done  {label}")
            elif key in seen:
                lines.append(f"        {label} (as above)")
            else:
                found = step.estimate(prices)
                total += found[0] if found else 0.0
                unknown += not found
                time, why = "unknown", ""
                if found:
                    time, why = costs.duration(found[0]), f"  {found[1]}"
                lines.append(f"  to do {label} {time:>9}{why}")
            seen.add(key)
    lines.append(f"In all, about {costs.duration(total)} on this machine.")
    if unknown:
        lines[-1] += f" {unknown} steps of unknown time are not counted."
    return "\n".join(lines)


def reproduce(names: Sequence[str], study: Study) -> None:
    """Makes targets, one after another; a failing one does not stop others."""
    _check_rows(names, study)
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
    needed = steps(name, study)
    for number, step in enumerate(needed, start=1):
        place = f"[{name} {number}/{len(needed)}]"
        if step.is_done():
            print(f"{place} {step.kind} {step.name}: there already")
            continue
        print(f"{place} {step.kind} {step.name}", flush=True)
        step.work()
    if not target.is_table_of_runs:
        study = dataclasses.replace(study, rows=None)
    elif not needed:
        print(f"{name} has none of --rows: it is left as it is")
        return
    target.write(study, name, target)


def _check_rows(names: Sequence[str], study: Study) -> None:
    """Refuses rows of which no table that is asked for has one."""
    tables = [TARGETS[n] for n in names if TARGETS[n].is_table_of_runs]
    known = [run for table in tables for run in table.rows.values() if run]
    if study.rows and tables and not set(study.rows) & set(known):
        raise ValueError(
            f"--rows must be some of {', '.join(dict.fromkeys(known))} for "
            f"{', '.join(names)}. Received: {', '.join(study.rows)}"
        )
