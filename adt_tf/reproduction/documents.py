"""The files of a target: Markdown for people, JSON for programs."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

from adt_tf.files import write_text
from adt_tf.json_files import write_json
from adt_tf.reproduction.study import Study


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[str]:
    """Returns the lines of a table whose columns after the first align right.

    Example:

    >>> print(*markdown_table(["a", "b"], [["x", "1"]]), sep="\\n")
    | a | b |
    | --- | ---: |
    | x | 1 |
    """
    rules = ["---", *["---:"] * (len(header) - 1)]
    return [f"| {' | '.join(row)} |" for row in (header, rules, *rows)]


def write(
    study: Study,
    name: str,
    title: str,
    lines: Sequence[str],
    values: dict[str, Any],
) -> None:
    """Writes NAME.md and NAME.json, and prints the path.

    Args:
        study: Study that the target belongs to.
        name: Name of the target.
        title: First line of the document.
        lines: Markdown below the title.
        values: Numbers for the JSON file.
    """
    scale = study.scale
    changes = [flag for flag in study.flags if "data_dir" not in flag]
    command = [
        "adt-reproduce",
        f"--target={name}",
        f"--scale={scale.name}",
        *changes,
    ]
    if study.output != pathlib.Path(f"build/reproduce/{scale.name}"):
        command.append(f"--output={study.output}")
    if study.seeds != (0,):
        command.append(f"--seeds={','.join(map(str, study.seeds))}")
    if study.released is not None:
        command.append(f"--released={study.released}")
    if study.rows is not None:
        command.append(f"--rows={','.join(study.rows) or 'released'}")
    remark = f" Changed: {' '.join(changes)}." if changes else ""
    text = [
        f"# {title}",
        "",
        *lines,
        "",
        f"Scale `{scale.name}`: {scale.description}{remark}",
        "",
        f"`{' '.join(command)}`",
    ]
    path = study.file(f"{name}.md")
    values = {"target": name, "scale": scale.name, **values}
    write_json(path.with_suffix(".json"), values)
    write_text(path, "\n".join(text) + "\n")
    print(f"{name}: written to {path}")
