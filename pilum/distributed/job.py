"""The values that the processes of one write exchange: small, frozen and plain."""

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
    """A write job that many tasks execute and one commit publishes.

    Attributes:
        uri: Location of the table.
        uuid: Id of the job and of its transaction; part of its file names.
        mode: "create" if no table exists yet, otherwise the requested mode.
        read_version: The latest version when the job started; 0 if there was none.
        schema: Columns that the table has after the commit.
        options: Options that determine how rows are divided into files.
        storage_options: Options of the object store.
        read_schema: Columns of the table before an append that adds columns; otherwise None.
        stable_row_ids: Whether rows keep their ids when they move, in a table that this job
            creates.
        if_created: What happens to the rows if there was no table and another writer creates it.
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
    """The message about what one task wrote.

    Attributes:
        partition: Number of the task.
        attempt: Number of the attempt.
        num_rows: Number of rows written.
        fragments: JSON forms of `FragmentMetadata`; empty if there were no rows.
    """

    partition: int
    attempt: int
    num_rows: int
    fragments: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the message as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> PartMessage:
        """Read the JSON form that `to_json` returns."""
        values = json.loads(text)
        return cls(**{**values, "fragments": tuple(values["fragments"])})
