"""Records the code, the data and the files that a run was made from.

record("build/run/provenance.json", train_data)   # at each start of a run
versions()["tensorflow"], commit(), fingerprint(path), written_at(path)
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import os
import pathlib
import platform
import subprocess
from typing import Any

import numpy as np

from adt_tf import files
from adt_tf.data import ImageData
from adt_tf.json_files import Maybe, check, read_json, write_json

_ROOT = pathlib.Path(__file__).parents[2]
_PACKAGES = (
    "adt_tf",
    "tensorflow",
    "keras",
    "tensorflow-probability",
    "numpy",
    "scipy",
    "matplotlib",
)
_DATA = {
    "name": str,
    "examples": int,
    "shape": [int],
    "classes": int,
    "sha256": str,
}
_START = {
    "started": str,
    "data": _DATA,
    "validation_data": Maybe(_DATA),
    "extra_data": Maybe(_DATA),
    "network_file": Maybe({"name": str, "sha256": str}),
    **{name: Maybe(str) for name in ("Python", "git commit", *_PACKAGES)},
}
_NAMES = {
    "data": "training",
    "validation_data": "validation",
    "extra_data": "extra",
}
_TIME = "%Y-%m-%d %H:%M UTC"


def record(
    path: str | pathlib.Path,
    train_data: ImageData,
    validation_data: ImageData | None = None,
    extra_data: ImageData | None = None,
    *,
    network_file: dict[str, str] | None = None,
) -> None:
    """Appends the time, code and data of a start of a run to the file.

    Args:
        path: Path of the file.
        train_data: Training set of this start.
        validation_data: Validation set of this start, or None.
        extra_data: Extra training data of this start, or None.
        network_file: Result of `network_file` for the initial network, or
            None.
    """
    path = pathlib.Path(path)
    entry = {
        "started": datetime.datetime.now(datetime.timezone.utc).strftime(_TIME),
        **_describe_all(train_data, validation_data, extra_data),
        **({"network_file": network_file} if network_file else {}),
        **versions(),
    }
    write_json(path, {"starts": [*read(path), entry]})


def check_data(
    path: str | pathlib.Path,
    train_data: ImageData,
    validation_data: ImageData | None = None,
    extra_data: ImageData | None = None,
) -> None:
    """Raises `ValueError` if an earlier start used other data.

    Args:
        path: Path of the file that `record` writes; it need not exist.
        train_data: Training set of this start.
        validation_data: Validation set of this start, or None.
        extra_data: Extra training data of this start, or None.
    """
    entries = read(path)
    described = {}
    if entries:
        described = _describe_all(train_data, validation_data, extra_data)
    for entry in entries:
        for name, now in described.items():
            # Version 0.1.0 did not record the validation set.
            before = entry.get(name) or now
            if before["sha256"] != now["sha256"]:
                raise ValueError(
                    f"The run in {pathlib.Path(path).parent} was started on "
                    f"other {_NAMES[name]} data: {_fingerprint(before)} then, "
                    f"{_fingerprint(now)} now, so nothing was changed. "
                    "Restore the old data, or choose another --workdir."
                )


def network_file(path: str | None) -> dict[str, str] | None:
    """Returns the name and the fingerprint of a file of weights.

    Args:
        path: Path of the file.

    Returns:
        A dictionary, or None if the path is None or is not a file.
    """
    if path is None or not pathlib.Path(path).is_file():
        return None
    return {
        "name": pathlib.Path(path).name,
        "sha256": files.sha256(pathlib.Path(path)),
    }


def check_network_file(
    path: str | pathlib.Path, now: dict[str, str] | None
) -> None:
    """Raises `ValueError` if an earlier start used other initial weights.

    Args:
        path: Path of the file that `record` writes; it need not exist.
        now: Result of `network_file` for this start.
    """
    for entry in read(path):
        before = entry.get("network_file")
        if before and now and before["sha256"] != now["sha256"]:
            raise ValueError(
                f"The run in {pathlib.Path(path).parent} was started from "
                f"other weights: {before['name']} with SHA-256 "
                f"{before['sha256']} then, {now['sha256']} now, so nothing "
                "was changed. Restore the old file, or choose another "
                "--workdir."
            )


def _describe_all(*examples: ImageData | None) -> dict[str, Any]:
    return {
        name: describe(part)
        for name, part in zip(_NAMES, examples, strict=True)
        if part is not None
    }


def _fingerprint(described: dict[str, Any]) -> str:
    return (
        f"{described['name']} with {described['examples']} examples "
        f"and SHA-256 {described['sha256']}"
    )


def read(path: str | pathlib.Path) -> list[dict[str, Any]]:
    """Returns the entries that `record` wrote, one for each start.

    The list is empty if the file does not exist.
    """
    path = pathlib.Path(path)
    if not path.exists():
        return []
    try:
        values = read_json(path)
        if isinstance(values, list):  # Format of version 0.1.0.
            values = {"starts": values}
        check(values, {"starts": [_START]}, path=path)
    except ValueError as error:
        raise ValueError(
            f"{error}. adt-train did not write this file. You can delete it; "
            "only the record of the run's origin is lost."
        ) from error
    return values["starts"]


def describe(examples: ImageData) -> dict[str, Any]:
    """Returns the size of a data set, and a hash of its images and labels.

    If the images come from files, the hash is that of the files, whether the
    images are in memory or not.

    >>> import numpy as np
    >>> mine = ImageData(np.zeros([4, 8, 8, 1]), np.array([0, 1, 1, 0]), 2, "m")
    >>> described = describe(mine)
    >>> described["examples"], described["shape"], described["classes"]
    (4, [8, 8, 1], 2)
    """
    if examples.source is None:
        digest = hashlib.sha256(np.ascontiguousarray(examples.images).data)
    else:
        digest = hashlib.sha256(examples.source.digest.encode())
    digest.update(np.ascontiguousarray(examples.labels).data)
    return {
        "name": examples.name,
        "examples": len(examples),
        "shape": list(examples.input_shape),
        "classes": examples.num_classes,
        "sha256": digest.hexdigest(),
    }


def written_at(path: pathlib.Path) -> str:
    """Returns the time when a file was last written, in UTC."""
    if not path.exists():
        return "unknown"
    try:
        time = datetime.datetime.fromtimestamp(
            path.stat().st_mtime, datetime.timezone.utc
        )
    except (OverflowError, ValueError):  # The year is above 9999.
        return "unknown"
    return time.strftime(_TIME)


def versions() -> dict[str, str]:
    """Returns the versions of Python, of the packages and of this code."""
    numbers = {"Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            numbers[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            numbers[name] = "unknown"
    return {**numbers, "git commit": commit(), "platform": platform.platform()}


def commit(root: pathlib.Path = _ROOT) -> str:
    """Returns the commit of this code, with "-dirty" if it has changed since.

    Args:
        root: Root of the repository.
    """
    # An installed package may lie inside another repository.
    if not (root / ".git").exists():
        return "unknown"
    # Variables such as GIT_DIR could select another repository.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_")
    }
    try:
        done = subprocess.run(
            # Do not run a program that the repository's configuration names.
            ["git", "-c", "core.fsmonitor=", "--no-optional-locks"]
            + ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip() or "unknown"
