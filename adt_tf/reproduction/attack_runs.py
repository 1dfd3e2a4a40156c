"""Attacks the runs of a study, through `adt_tf.runs.evaluation_job`.

An evaluation is the file evaluation-PROTOCOL.json in the run's workdir. It
holds the command of adt-evaluate that writes the same file.
"""

from __future__ import annotations

import dataclasses
import gc
import pathlib
from typing import Any

from adt_tf import data, evaluation
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
    """Returns the file that holds the verdicts on a run."""
    return Workdir(study.workdir(run, seed)).evaluation(protocol)


def command(study: Study, run: str, seed: int, protocol: str) -> str:
    """Returns the command of adt-evaluate that measures the same."""
    settings = settings_of(study, run, seed, protocol)
    words = [
        "adt-evaluate",
        f"--workdir={study.workdir(run, seed)}",
        f"--protocol={protocol}",
        f"--attacks={','.join(settings['attack_names'])}",
    ]
    if _attack_epsilon(study, run) is not None:
        words.append(f"--epsilon={settings['epsilon']!r}")
    names = (
        "test_examples",
        "attack_epochs",
        "attack_width_factor",
        "max_samples",
    )
    words += [
        f"--{name}={settings[name]}"
        for name in names
        if settings.get(name) is not None
    ]
    return " ".join(words)


def settings_of(
    study: Study, run: str, seed: int, protocol: str
) -> dict[str, Any]:
    """Returns the settings that decide the verdicts on a run at this scale."""
    scale = study.scale
    rules = scale.protocols[protocol]
    return evaluation_settings.describe(
        _config(study, run, seed),
        list(rules.attacks.values()),
        classifier=Workdir(study.workdir(run, seed)).fingerprint(),
        test_examples=rules.test_examples,
        independent=rules.independent,
        attack_epochs=scale.attack_epochs,
        attack_width_factor=scale.attack_width_factor,
        distributions=rules.distributions,
        max_samples=rules.max_samples,
    )


def is_evaluated(study: Study, run: str, seed: int, protocol: str) -> bool:
    """Tells whether a run has been evaluated with the scale's settings."""
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


def probabilistic_report(
    study: Study, run: str, seed: int
) -> evaluation.ProbabilisticReport:
    """Returns the failure counts of a run under the sampled distributions."""
    file = path(study, run, seed, "probabilistic")
    return evaluation_files.read(file)["probabilistic"]


def evaluate(study: Study, run: str, seed: int, protocol: str) -> None:
    """Attacks a trained run; continues an interrupted evaluation."""
    if is_evaluated(study, run, seed, protocol):
        return
    config = _config(study, run, seed)
    settings = settings_of(study, run, seed, protocol)
    assess(
        study,
        config,
        study.classifier(run, seed),
        study.test_data(run, seed, settings["test_examples"]),
        settings,
        path(study, run, seed, protocol),
        details={
            "command": command(study, run, seed, protocol),
            "protocol": protocol,
            "method": config.method,
            "network": config.network,
        },
    )


def assess(
    study: Study,
    config: Config,
    classifier: Any,
    test: data.ImageData,
    settings: dict[str, Any],
    output: pathlib.Path,
    *,
    details: dict[str, Any],
) -> None:
    """Attacks a classifier and writes the evaluation.

    Args:
        study: Study whose scale decides the training of attacking generators.
        config: Configuration with the data and epsilon of the attacks.
        classifier: Classifier to attack.
        test: Test examples.
        settings: Settings of `evaluation_settings.describe`.
        output: Path of the JSON file.
        details: Further values for the file.
    """
    ball = inputs.threat_model(config)
    context = {
        "classifier": classifier,
        "width_factor": study.scale.attack_width_factor,
    }
    sampling = {}
    if settings.get("distributions"):
        sampling = {
            "distributions": evaluation_job.build_distributions(
                settings["distributions"], ball, test, **context
            ),
            "max_samples": settings["max_samples"],
        }
    evaluation_job.assess_experiment(
        config,
        classifier,
        test,
        evaluation_job.build_attacks(
            settings["attack_names"], ball, test, **context
        ),
        output,
        attack_epochs=study.scale.attack_epochs,
        details={**details, **settings},
        independent=settings["independent"],
        **sampling,
    )
    gc.collect()


def _config(study: Study, run: str, seed: int) -> Config:
    """Returns a run's configuration with the epsilon of its attacks."""
    config = study.config(run, seed)
    epsilon = _attack_epsilon(study, run)
    if epsilon is None:
        return config
    return dataclasses.replace(config, epsilon=epsilon)


def _attack_epsilon(study: Study, run: str) -> float | None:
    """Returns the attacks' epsilon, or None for the epsilon of training."""
    is_smaller = study.scale.folder is not None
    return None if is_smaller else registry.RUNS[run].attack_epsilon
