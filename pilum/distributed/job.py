"""What travels between the processes of one write: small, frozen, made of plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from pilum.format.schema import Schema
from pilum.table.commit.operations.overwrite import IfCreated
from pilum.table.write.write import WriteOptions

__all__ = ["Mode", "PartMessage", "WriteJob"]

Mode = Literal["create", "append", "overwrite"]


@dataclass(frozen=True)
class WriteJob:
    """A write that many tasks share and one commit publishes.

    Attributes:
        uri: Location of the table.
        uuid: Of the job: of its transaction, and part of its file names.
        mode: "create" if there is no table yet, else what was asked for.
        read_version: The latest version when the job began, 0 if there was none.
        schema: Columns that the table will have.
        options: How files are cut.
        storage_options: Options of the object store.
        read_schema: Columns that the table has now, if an append brings more; else None.
        stable_row_ids: Whether rows of a table that this creates keep their ids when they move.
        if_created: What becomes of the rows if there was no table and another writer creates it.
    """

    uri: str
    uuid: str
    mode: Mode
    read_version: int
    schema: Schema
    options: WriteOptions = field(default_factory=WriteOptions)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    read_schema: Schema | None = None
    stable_row_ids: bool = False
    if_created: IfCreated = IfCreated.REPLACE


@dataclass(frozen=True, slots=True)
class PartMessage:
    """What one task wrote.

    Attributes:
        partition: Number of the task.
        attempt: Which try of it.
        num_rows: Rows written.
        fragments: Each a JSON text as `FragmentMetadata` has it; empty if there were no rows.
    """

    partition: int
    attempt: int
    num_rows: int
    fragments: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The message as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> PartMessage:
        """The message that `to_json` wrote."""
        values = json.loads(text)
        return cls(**{**values, "fragments": tuple(values["fragments"])})
