"""Measures models that others have released, as the paper measures them.

    adt-reproduce --target=table1 --scale=paper --released=DIR

DIR has one or more of these files, in any form whose architecture
`adt_tf.load_classifier` recognises:

- at_pgd_plus.*: the model of Madry et al., the paper's AT-PGD with a dagger.
  Its TensorFlow 1 checkpoint may keep its names in a directory at_pgd_plus;
- adt_exp.*, adt_exp_am.*, adt_imp_am.*: the models of the paper's authors.

Each is attacked by the paper's protocol and by AutoAttack. The evaluations are
in OUTPUT/released. A file with other weights is evaluated again.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from typing import Any

from adt_tf import evaluation, files
from adt_tf.reproduction import attack_runs
from adt_tf.reproduction.study import Study
from adt_tf.runs import (
    evaluation_files,
    evaluation_settings,
    inputs,
    protocols,
)
from adt_tf.runs.config import Config
from adt_tf.serving.bridge.reading import tensorflow_checkpoints

#: Mapping from the rows of Table 1 to the file names without their endings.
FILES = {
    "AT-PGD+": "at_pgd_plus",
    "ADT-EXP": "adt_exp",
    "ADT-EXP-AM": "adt_exp_am",
    "ADT-IMP-AM": "adt_imp_am",
}
PROTOCOLS = ("paper", "autoattack")


def find(folder: pathlib.Path | None) -> dict[str, pathlib.Path]:
    """Returns the released files in a directory, by the rows of Table 1.

    Args:
        folder: Directory of the files, or None.
    """
    if folder is None:
        return {}
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    # A TensorFlow 1 checkpoint is known by its index.
    companions = re.compile(r"\.(meta|data-\d+-of-\d+)$")
    by_row = {
        row: [
            path
            for path in paths
            if path.name.split(".")[0] == stem
            and not companions.search(path.name)
        ]
        for row, stem in FILES.items()
    }
    for row, candidates in by_row.items():
        if len(candidates) > 1:
            raise ValueError(
                f"--released must hold one file for {row}. Received: "
                f"{', '.join(path.name for path in candidates)}"
            )
    if not any(by_row.values()):
        raise ValueError(
            "--released must be a directory with one or more of the files "
            f"{', '.join(f'{stem}.*' for stem in FILES.values())}. Received: "
            f"{folder}"
        )
    return {row: paths[0] for row, paths in by_row.items() if paths}


def attacks_of(study: Study, protocol: str) -> list[str]:
    """Returns the attacks of a protocol at the study's scale."""
    if protocol in study.scale.protocols:
        return list(study.scale.protocols[protocol].attacks.values())
    return protocols.attacks_of(protocol)


def is_evaluated(study: Study, file: pathlib.Path, protocol: str) -> bool:
    """Tells whether a file has been evaluated with the scale's settings."""
    path = _path(study, file, protocol)
    return path.is_file() and evaluation_settings.is_current(
        evaluation_files.read(path), _settings(study, file, protocol)
    )


def report(
    study: Study, file: pathlib.Path, protocol: str
) -> evaluation.Report:
    """Returns the verdicts on a file."""
    return evaluation_files.read(_path(study, file, protocol))["report"]


def evaluate(study: Study, file: pathlib.Path, protocol: str) -> None:
    """Attacks a released model; continues an interrupted evaluation."""
    config, settings = _config(study), _settings(study, file, protocol)
    test = study.test_data("at_pgd", 0, settings["test_examples"])
    attack_runs.assess(
        study,
        config,
        inputs.load_classifier(file, like=test),
        test,
        settings,
        _path(study, file, protocol),
        details={
            "command": command(study, file, protocol),
            "protocol": protocol,
            "method": f"{file.name}, released",
            "network": None,
        },
    )


def command(study: Study, file: pathlib.Path, protocol: str) -> str:
    """Returns the command of adt-evaluate that measures the same."""
    config, settings = _config(study), _settings(study, file, protocol)
    words = [
        f"adt-evaluate --model={file} --dataset={config.dataset}",
        f"--epsilon={config.epsilon!r} --protocol={protocol}",
        f"--attacks={','.join(settings['attack_names'])}",
    ]
    if settings["test_examples"] is not None:
        words.append(f"--test_examples={settings['test_examples']}")
    return " ".join(words)


def fingerprint(file: pathlib.Path) -> str:
    """Returns the SHA-256 of a file, or of the main file of a directory.

    That is the index of a SavedModel's variables or of a TensorFlow 1
    checkpoint, which has the checksums of all weights.
    """
    if file.is_dir():
        index = tensorflow_checkpoints.index_file(file)
        file = index or file / "variables" / "variables.index"
    return files.sha256(file)


def _path(study: Study, file: pathlib.Path, protocol: str) -> pathlib.Path:
    folder = study.output / "released" / file.name.split(".")[0]
    return folder / f"evaluation-{protocol}.json"


def _config(study: Study) -> Config:
    """Returns the configuration with the data and epsilon of Table 1."""
    return study.config("at_pgd", 0)


def _settings(
    study: Study, file: pathlib.Path, protocol: str
) -> dict[str, Any]:
    attacks: Sequence[str] = attacks_of(study, protocol)
    return evaluation_settings.describe(
        _config(study),
        attacks,
        classifier=fingerprint(file)[:16],
        test_examples=study.scale.protocols["paper"].test_examples,
        independent="--independent" in protocols.read(protocol),
        attack_epochs=study.scale.attack_epochs,
        attack_width_factor=study.scale.attack_width_factor,
    )
