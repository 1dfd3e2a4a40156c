"""A target of adt-reproduce: a table, a figure, or the paper's claims.

`tables` and `figures` define the targets; `catalogue` lists all by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from adt_tf.reproduction.study import Rows, Study


@dataclasses.dataclass(frozen=True)
class Target:
    """A table, a figure, or the answers to the paper's claims.

    Attributes:
        title: One line on what the target shows.
        write: Function that writes the target's files from finished runs and
            measurements: `write(study, name, target)`.
        rows: Mapping from a row's label to its run; None where the paper took
            a model that others had trained.
        protocol: Protocol that attacks the rows; None for no attack.
        further_protocols: Protocols that attack the rows as well.
        figure: Module of `figures`; None for a table.
        trained: Whether the rows have to be trained.
        baselines: Mapping from a row to the row that it is compared with.
        networks: Mapping from a label to the network whose layers are listed.
        takes_released: Whether the target includes models released by others.
        note: Remark below the table or figure.
    """

    title: str
    write: Callable[[Study, str, Any], None]
    rows: Rows = dataclasses.field(default_factory=dict)
    protocol: str | None = None
    further_protocols: tuple[str, ...] = ()
    figure: Any = None
    trained: bool = True
    baselines: Mapping[str, str] = dataclasses.field(default_factory=dict)
    networks: Mapping[str, Callable[..., Any]] = dataclasses.field(
        default_factory=dict
    )
    takes_released: bool = False
    note: str = ""

    @property
    def protocols(self) -> tuple[str, ...]:
        """The names of all protocols that attack the rows."""
        return tuple(filter(None, (self.protocol, *self.further_protocols)))

    @property
    def runs(self) -> dict[str, str]:
        """The rows that have a run."""
        return {k: run for k, run in self.rows.items() if run is not None}

    @property
    def is_table_of_runs(self) -> bool:
        """Whether `--rows` selects rows of this target."""
        return bool(self.rows) and self.figure is None
