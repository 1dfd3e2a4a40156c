"""The steps of a target: training its rows, attacking and measuring them.

    for step in list_steps("table1", study):
        if not step.is_done():
            step.work()

Targets share steps: a step that another target has done is not repeated.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from adt_tf.reproduction import attack_runs, costs, released, train_runs
from adt_tf.reproduction.catalogue import TARGETS
from adt_tf.reproduction.measurements import Measurement
from adt_tf.reproduction.study import Study
from adt_tf.runs.evaluation_settings import GENERATORS

_TEST_SIZES = {"svhn_cropped": 26_032, "digits": 500}


@dataclasses.dataclass(frozen=True)
class Step:
    """A training, an evaluation or a measurement.

    Attributes:
        kind: "train", "attack" or "measure".
        name: Name of the run, of the run and its protocol, or of the
            measurement.
        is_done: Function that tells whether the result exists.
        work: Function that produces the result.
        estimate: Function from the known costs to the number of seconds and a
            text that explains it; returns None if a cost is not known.
    """

    kind: str
    name: str
    is_done: Callable[[], bool]
    work: Callable[[], Any]
    estimate: Callable[[costs.Book], tuple[float, str] | None]


def list_steps(name: str, study: Study) -> list[Step]:
    """Returns all steps of a target, in order."""
    target, steps = TARGETS[name], []
    rows = target.rows
    if target.is_table_of_runs:
        rows = study.rows_to_make(rows)
    seeds = study.seeds[:1] if target.figure else study.seeds
    for run in filter(None, rows.values()):
        for seed in seeds:
            if target.trained:
                steps.append(_train(study, run, seed))
            steps += [
                _attack(study, run, seed, protocol)
                for protocol in target.protocols
            ]
    if target.takes_released:
        steps += [
            _attack_released(study, file, protocol)
            for file in released.find(study.released).values()
            for protocol in released.PROTOCOLS
        ]
    if target.figure:
        steps += [
            _measure(study, measurement)
            for measurement in target.figure.measurements(study, target.rows)
        ]
    return steps


def _train(study: Study, run: str, seed: int) -> Step:
    def estimate(book):
        config = study.config(run, seed)
        cost = book.step(config)
        epochs = config.epochs - train_runs.epochs_done(
            study.workdir(run, seed)
        )
        count = epochs * costs.steps_per_epoch(config)
        return cost and (
            count * cost.seconds,
            f"{count} steps of {cost.seconds:.3g} s, {cost.source}",
        )

    return Step(
        "train",
        study.workdir(run, seed).name,
        lambda: train_runs.is_trained(study, run, seed),
        lambda: train_runs.train(study, run, seed),
        estimate,
    )


def _attack(study: Study, run: str, seed: int, protocol: str) -> Step:
    scale = study.scale
    rules = scale.protocols[protocol]

    def estimate(book):
        config = study.config(run, seed)
        cost = book.gradient(config)
        if cost is None:
            return None
        count = rules.test_examples or _TEST_SIZES.get(config.dataset, 10_000)
        each = sum(map(costs.gradients_of, rules.attacks.values()))
        for distribution in rules.distributions:
            name, _, _ = distribution.partition("@")
            each += costs.gradients_of(name) + rules.max_samples / 3
        seconds = count * each * cost.seconds
        reason = (
            f"at most {count} x {each:.0f} gradients of {cost.seconds:.3g} s"
        )
        for attack in GENERATORS:
            if attack in rules.attacks.values():
                twin = study.config(f"adt_{attack.replace('-', '_')}", seed)
                step = book.step(twin)
                if step is None:
                    return None
                epochs = scale.attack_epochs
                seconds += epochs * costs.steps_per_epoch(config) * step.seconds
                reason += f"; {attack}'s generator {epochs} epochs"
        return seconds, reason

    return Step(
        "attack",
        f"{study.workdir(run, seed).name} by {protocol}",
        lambda: attack_runs.is_evaluated(study, run, seed, protocol),
        lambda: attack_runs.evaluate(study, run, seed, protocol),
        estimate,
    )


def _attack_released(study: Study, file: pathlib.Path, protocol: str) -> Step:
    def estimate(book):
        # The released models have the network of the paper's AT-PGD.
        config = study.config("at_pgd", 0)
        cost = book.gradient(config)
        if cost is None:
            return None
        count = study.scale.protocols["paper"].test_examples
        count = count or _TEST_SIZES.get(config.dataset, 10_000)
        each = sum(
            map(costs.gradients_of, released.attacks_of(study, protocol))
        )
        return count * each * cost.seconds, (
            f"at most {count} x {each:.0f} gradients of {cost.seconds:.3g} s"
        )

    return Step(
        "attack",
        f"{file.name} by {protocol}",
        lambda: released.is_evaluated(study, file, protocol),
        lambda: released.evaluate(study, file, protocol),
        estimate,
    )


def _measure(study: Study, measurement: Measurement) -> Step:
    def estimate(book):
        config = study.config(
            (measurement.runs or ("at_pgd",))[0], study.seeds[0]
        )
        if measurement.steps:
            cost = book.step(study.scale.timed(config))
            # A round, one step of each of the five methods, takes about
            # eight times as long as AT-PGD's step.
            return cost and (
                8 * measurement.steps * cost.seconds,
                f"{measurement.steps} rounds of steps",
            )
        cost = book.gradient(config)
        return cost and (
            measurement.gradients * cost.seconds,
            f"{measurement.gradients:.0f} gradients of {cost.seconds:.3g} s",
        )

    return Step(
        "measure",
        measurement.name,
        lambda: measurement.is_there(study),
        lambda: measurement.load(study),
        estimate,
    )
