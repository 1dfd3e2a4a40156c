"""What a reproduction makes: a table, a figure, or answers about them.

`tables` and `figures` list theirs; `catalogue` has all of them by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from adt_tf.reproduction.study import Rows, Study


@dataclasses.dataclass(frozen=True)
class Target:
    """A table, a figure, or what is asked about them.

    Attributes:
        title: What it shows.
        write: Writes it from what is there: `write(study, name, target)`.
        rows: From a label to a run; None where the paper took another's model.
        protocol: How the rows are attacked; None for not at all.
        figure: A module of `figures`; None for a table.
        trained: Whether the rows have to be trained.
        baselines: From a row to the row that it is compared with.
        networks: From a label to the network whose layers are listed.
        takes_released: Whether models that others released belong to it.
        note: A remark below the table or figure.
    """

    title: str
    write: Callable[[Study, str, Any], None]
    rows: Rows = dataclasses.field(default_factory=dict)
    protocol: str | None = None
    figure: Any = None
    trained: bool = True
    baselines: Mapping[str, str] = dataclasses.field(default_factory=dict)
    networks: Mapping[str, Callable[..., Any]] = dataclasses.field(
        default_factory=dict
    )
    takes_released: bool = False
    note: str = ""

    @property
    def is_table_of_runs(self) -> bool:
        """Whether `--rows` chooses from it."""
        return bool(self.rows) and self.figure is None
