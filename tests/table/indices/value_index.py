"""An index type for tests: a file of all values and references, of which all are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pilum.errors import InvalidInputError, UnsupportedTypeError
from pilum.index.answers import Answer, RowSet
from pilum.index.base import REFERENCE, VALUE, Index, IndexRows, IndexType, Part, References
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.queries import IsIn, IsNull, Query

FILE = "values.lance"


@dataclass
class ValueIndex(Index):
    """All rows of a segment."""

    rows: pa.Table
    prewarmed: bool = False

    @property
    def size_bytes(self) -> int:
        """The size of the rows, and more once it is prewarmed."""
        return int(self.rows.nbytes) + 1_000_000 * self.prewarmed

    def search(self, query: Query) -> Answer | None:
        """Compare all values."""
        values = self.rows[VALUE]
        nulls = self._where(pc.is_null(values))
        if isinstance(query, IsNull):
            return Answer(nulls)
        if isinstance(query, IsIn):
            return Answer(self._where(pc.is_in(values, value_set=query.values)), nulls)
        return None

    def estimate(self, query: Query) -> int | None:
        """Return the number of all rows."""
        return len(self.rows)

    def statistics(self) -> dict[str, Any]:
        """Return the number of all rows."""
        return {"num_values": len(self.rows)}

    def prewarm(self) -> None:
        """Take more memory."""
        self.prewarmed = True

    def _where(self, mask: Any) -> RowSet:
        return RowSet.of(self.rows.filter(mask)[REFERENCE].to_numpy())


class ValueIndexType(IndexType[ValueIndex]):
    """A type of references of one kind."""

    name: ClassVar[str]
    files: ClassVar[tuple[str, ...]] = (FILE,)

    def require_supported(self, column: str, type: pa.DataType) -> None:
        """Accept integers."""
        if not pa.types.is_integer(type):
            raise UnsupportedTypeError(f"column {column!r} of type {type}: expected integers")

    def parameters(self, given: Mapping[str, Any], type: pa.DataType) -> Any:
        """Accept `fails`."""
        if unknown := given.keys() - {"fails"}:
            raise InvalidInputError(f"no parameters {sorted(unknown)}")
        return dict(given)

    def train(self, rows: IndexRows, parameters: Any, folder: IndexFolderWriter) -> bytes:
        """Write all rows."""
        schema = pa.schema([pa.field(VALUE, rows.type), pa.field(REFERENCE, pa.uint64())])
        table = pa.Table.from_batches(list(rows.batches), schema=schema)
        assert len(table) == rows.num_rows
        folder.write(FILE, table)
        if parameters.get("fails"):
            raise RuntimeError("the disk is full")
        return b"\x0a\x01t"

    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> ValueIndex:
        """Read all rows."""
        return ValueIndex(folder.open(FILE).read())

    def merge(
        self,
        parts: Sequence[Part[ValueIndex]],
        rows: IndexRows | None,
        folder: IndexFolderWriter,
    ) -> bytes:
        """Concatenate all rows."""
        tables = [_kept(part) for part in parts]
        if rows is not None:
            tables.append(pa.Table.from_batches(list(rows.batches), schema=tables[0].schema))
        folder.write(FILE, pa.concat_tables(tables).combine_chunks())
        return b"\x0a\x01m"


class Addresses(ValueIndexType):
    """Refers to rows by addresses."""

    name = "VALUES"
    type_url = "/tests.ValuesIndexDetails"
    references = References.ADDRESSES


class Ids(ValueIndexType):
    """Refers to rows by stable ids."""

    name = "VALUEIDS"
    type_url = "/tests.ValueIdsIndexDetails"
    references = References.ROW_IDS


class Zones(ValueIndexType):
    """Is not remapped."""

    name = "VALUEZONES"
    type_url = "/tests.ValueZonesIndexDetails"
    references = References.ZONES


TYPES = (Addresses(), Ids(), Zones())


def _kept(part: Part[ValueIndex]) -> pa.Table:
    rows = part.index.rows
    if part.moves is None:
        return rows
    references, is_there = part.moves(rows[REFERENCE].to_numpy())
    moved = rows.set_column(1, rows.schema.field(1), pa.array(references))
    return moved.filter(pa.array(is_there))


def is_in(*values: int) -> IsIn:
    """Return the query for some values."""
    return IsIn(pa.array(values, pa.int64()))


def addresses(*places: tuple[int, int]) -> list[int]:
    """Return the addresses of fragments and rows."""
    return [fragment << 32 | row for fragment, row in places]


def listed(answer: Answer | None) -> list[int]:
    """Return the addresses of an answer that lists them."""
    assert answer is not None
    assert not answer.rows.is_complement
    return [int(one) for one in np.asarray(answer.rows.listed)]
