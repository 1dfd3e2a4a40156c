"""Which files and which code a report comes from.

versions()["tensorflow"], commit(), fingerprint(path), written_at(path)
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import pathlib
import platform
import subprocess

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


def written_at(path: pathlib.Path) -> str:
    """When a file was last written, in UTC."""
    if not path.exists():
        return "unknown"
    time = datetime.datetime.fromtimestamp(
        path.stat().st_mtime, datetime.timezone.utc
    )
    return time.strftime("%Y-%m-%d %H:%M UTC")


def fingerprint(path: pathlib.Path) -> str:
    """The SHA-256 of a file, by which a model can be recognised."""
    if not path.is_file():
        return "unknown"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def versions() -> dict[str, str]:
    """The versions of Python, of the packages and of this code."""
    found = {"Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "unknown"
    return {**found, "git commit": commit(), "platform": platform.platform()}


def commit(root: pathlib.Path = _ROOT) -> str:
    """The commit of this code, "-dirty" where it was changed since."""
    # An installed package may lie inside somebody else's repository.
    if not (root / ".git").exists():
        return "unknown"
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40"]
            + ["--exclude=*"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip() or "unknown"
