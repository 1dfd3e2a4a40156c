"""Attacks the runs of a study, through `adt_tf.runs.evaluation_job`.

The files are those that scripts/evaluate.py would write with the command that
they hold, evaluation-PROTOCOL.json in the workdir.
"""

from __future__ import annotations

import gc
import pathlib

from adt_tf import evaluation
from adt_tf.reproduction import registry
from adt_tf.reproduction.study import Study
from adt_tf.runs import evaluation_job
from adt_tf.runs import workdir as workdirs


def path(study: Study, run: str, seed: int, protocol: str) -> pathlib.Path:
    """Where the verdicts on a run lie."""
    return study.workdir(run, seed) / f"evaluation-{protocol}.json"


def command(study: Study, run: str, seed: int, protocol: str) -> str:
    """The command that measures the same."""
    scale = study.scale
    chosen = scale.protocols[protocol]
    words = [
        "python scripts/evaluate.py",
        f"--workdir={study.workdir(run, seed)}",
        f"--protocol={protocol}",
        f"--attacks={','.join(chosen.attacks.values())}",
    ]
    changed = _changed(study, run)
    words += [f"--{name}={value!r}" for name, value in changed.items()]
    if chosen.test_examples:
        words.append(f"--test_examples={chosen.test_examples}")
    if protocol == "distributional":
        words += [
            f"--attack_epochs={scale.attack_epochs}",
            f"--attack_width_factor={scale.attack_width_factor:g}",
        ]
    return " ".join(words)


def is_evaluated(study: Study, run: str, seed: int, protocol: str) -> bool:
    """Whether a run has been measured as this scale asks."""
    file = path(study, run, seed, protocol)
    if not file.is_file():
        return False
    found = evaluation_job.read(file)
    ours = workdirs.fingerprint(study.workdir(run, seed))
    same = found.get("classifier", ours) == ours
    return same and _settings(found["command"]) == _settings(
        command(study, run, seed, protocol)
    )


def report(
    study: Study, run: str, seed: int, protocol: str
) -> evaluation.Report:
    """Returns the verdicts on a run."""
    return evaluation_job.read(path(study, run, seed, protocol))["report"]


def evaluate(study: Study, run: str, seed: int, protocol: str) -> None:
    """Attacks a trained run, unless that was done; goes on if interrupted."""
    if is_evaluated(study, run, seed, protocol):
        return
    scale = study.scale
    config = study.config(run, seed) | _changed(study, run)
    chosen = scale.protocols[protocol]
    test = study.test_data(run, seed, chosen.test_examples)
    attacks = evaluation_job.build_attacks(
        list(chosen.attacks.values()),
        config["epsilon"],
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
            "classifier": workdirs.fingerprint(study.workdir(run, seed)),
            "method": config["method"],
            "network": config["network"],
        },
        independent=True,
    )
    gc.collect()


def _changed(study: Study, run: str) -> dict[str, float]:
    """Flags that attacks on a run have otherwise than its training."""
    epsilon = registry.RUNS[run].attack_epsilon
    if study.scale.folder is not None or epsilon is None:
        return {}
    return {"epsilon": epsilon}


def _settings(text: str) -> set[str]:
    """What a command measures, wherever its workdir lies."""
    return {part for part in text.split() if not part.startswith("--workdir=")}
