"""Attacks the runs of a study, through `adt_tf.runs.evaluation_job`.

The files are those that adt-evaluate would write with the command that
they hold, evaluation-PROTOCOL.json in the workdir.
"""

from __future__ import annotations

import dataclasses
import gc
import pathlib
from typing import Any

from adt_tf import evaluation
from adt_tf.reproduction import registry
from adt_tf.reproduction.study import Study
from adt_tf.runs import (
    evaluation_files,
    evaluation_job,
    evaluation_settings,
    inputs,
)
from adt_tf.runs.config import Config
from adt_tf.runs.workdir import Workdir


def path(study: Study, run: str, seed: int, protocol: str) -> pathlib.Path:
    """Returns where the verdicts on a run lie."""
    return Workdir(study.workdir(run, seed)).evaluation(protocol)


def command(study: Study, run: str, seed: int, protocol: str) -> str:
    """Returns the command that measures the same."""
    settings = settings_of(study, run, seed, protocol)
    words = [
        "adt-evaluate",
        f"--workdir={study.workdir(run, seed)}",
        f"--protocol={protocol}",
        f"--attacks={','.join(settings['attack_names'])}",
    ]
    if _attack_epsilon(study, run) is not None:
        words.append(f"--epsilon={settings['epsilon']!r}")
    words += [
        f"--{name}={settings[name]}"
        for name in ("test_examples", "attack_epochs", "attack_width_factor")
        if settings[name] is not None
    ]
    return " ".join(words)


def settings_of(
    study: Study, run: str, seed: int, protocol: str
) -> dict[str, Any]:
    """Returns what decides the verdicts on a run at this scale."""
    scale = study.scale
    return evaluation_settings.describe(
        _config(study, run, seed),
        list(scale.protocols[protocol].attacks.values()),
        classifier=Workdir(study.workdir(run, seed)).fingerprint(),
        test_examples=scale.protocols[protocol].test_examples,
        independent=scale.protocols[protocol].independent,
        attack_epochs=scale.attack_epochs,
        attack_width_factor=scale.attack_width_factor,
    )


def is_evaluated(study: Study, run: str, seed: int, protocol: str) -> bool:
    """Tells whether a run has been measured as this scale asks."""
    file = path(study, run, seed, protocol)
    return file.is_file() and evaluation_settings.is_current(
        evaluation_files.read(file),
        settings_of(study, run, seed, protocol),
    )


def report(
    study: Study, run: str, seed: int, protocol: str
) -> evaluation.Report:
    """Returns the verdicts on a run."""
    return evaluation_files.read(path(study, run, seed, protocol))["report"]


def evaluate(study: Study, run: str, seed: int, protocol: str) -> None:
    """Attacks a trained run, unless that was done; goes on if interrupted."""
    if is_evaluated(study, run, seed, protocol):
        return
    scale = study.scale
    config = _config(study, run, seed)
    settings = settings_of(study, run, seed, protocol)
    test = study.test_data(run, seed, settings["test_examples"])
    attacks = evaluation_job.build_attacks(
        settings["attack_names"],
        inputs.threat_model(config),
        test,
        width_factor=scale.attack_width_factor,
    )
    evaluation_job.assess_experiment(
        config,
        study.classifier(run, seed),
        test,
        attacks,
        path(study, run, seed, protocol),
        attack_epochs=scale.attack_epochs,
        details={
            "command": command(study, run, seed, protocol),
            "protocol": protocol,
            "method": config.method,
            "network": config.network,
            **settings,
        },
        independent=scale.protocols[protocol].independent,
    )
    gc.collect()


def _config(study: Study, run: str, seed: int) -> Config:
    """Returns a run's configuration, with the epsilon of its attacks."""
    config = study.config(run, seed)
    epsilon = _attack_epsilon(study, run)
    if epsilon is None:
        return config
    return dataclasses.replace(config, epsilon=epsilon)


def _attack_epsilon(study: Study, run: str) -> float | None:
    """Returns the attacks' epsilon where it is not that of training."""
    is_smaller = study.scale.folder is not None
    return None if is_smaller else registry.RUNS[run].attack_epsilon
