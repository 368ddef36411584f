"""The interface of an index type: train, open, search, merge.

    rows (value, reference) ──▶ train ──▶ files      first segment of an index
    segments, new rows      ──▶ merge ──▶ files      optimise; with moves, remap after a compaction
    files                   ──▶ open  ──▶ Index ──▶ search(query) ──▶ answer

Source: docs/format/indices.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from pilum.format.rows import Addresses
from pilum.index.answers import Answer
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.queries import Query

__all__ = [
    "REFERENCE",
    "VALUE",
    "Counted",
    "Index",
    "IndexRows",
    "IndexType",
    "Moves",
    "Part",
    "References",
    "Span",
]

VALUE, REFERENCE = "value", "reference"
"""The columns of the rows to index: the value, and the row reference as uint64."""

Moves: TypeAlias = "Callable[[Addresses], tuple[Addresses, NDArray[np.bool_]]]"
"""Returns where rows are now, and whether they still exist."""

Span: TypeAlias = "tuple[pa.Array, Addresses | int]"
"""Values, and the address of each; of adjacent rows of one fragment, that of the first."""

ThisIndex = TypeVar("ThisIndex", bound="Index")


class References(Enum):
    """The kinds of row references in tables with stable row ids; elsewhere all are addresses.

    Zones are ranges of addresses, which compaction does not remap: it only ends their coverage.
    """

    ADDRESSES = "addresses"
    ROW_IDS = "row ids"
    ZONES = "zones"


def _without_sample(count: int) -> pa.Array:
    raise TypeError(f"these rows have no sample, of which {count} are needed")


@dataclass(frozen=True)
class IndexRows:
    """Rows to index.

    Attributes:
        type: Type of the values.
        batches: Batches of the columns `VALUE` and `REFERENCE`, in the order of fragments and rows;
            deleted rows are left out. Can be consumed once.
        num_rows: Number of rows.
        sample: Function that reads the values of random rows; of all rows if there are fewer than
            requested. The same number of them again are the same rows.
        on_nodes: Function that is called with the number of rows that were inserted into graphs
            since the last call.
        spans: The same rows as `batches`, of which one of both can be consumed; None if there are
            batches only.
        are_json: Whether the schema says that the values are JSON, in their binary form.
    """

    type: pa.DataType
    batches: Iterator[pa.RecordBatch]
    num_rows: int
    sample: Callable[[int], pa.Array] = _without_sample
    on_nodes: Callable[[int], None] | None = None
    spans: Iterator[Span] | None = None
    are_json: bool = False


class Counted(Protocol):
    """The interface of an index whose memory a session counts.

    Attributes:
        counted_bytes: The memory that the session last counted for it.
    """

    counted_bytes: int

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""


class Index(ABC):
    """An open segment of an index. Safe to use from several threads, and kept by the session.

    Attributes:
        counted_bytes: The memory that the session last counted for it.
    """

    counted_bytes: int = 0

    @property
    def value_type(self) -> pa.DataType | None:
        """The type that values of the column have; None if the files do not say it."""
        return None

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""

    @abstractmethod
    def search(self, query: Query) -> Answer | None:
        """Return the rows that match; None if it cannot say more than that all rows may match.

        Raises:
            CorruptFileError: If a file is damaged.
        """

    @abstractmethod
    def estimate(self, query: Query) -> int | None:
        """Return about how many rows `search` would return, from what is in memory.

        None if the index cannot answer the query.
        """

    def pairs(self, values: pa.Array) -> tuple[NDArray[np.int64], Addresses] | None:
        """Return the pairs of a value and a row with this value, in any order.

        Args:
            values: Values of the type of the column, without nulls, which may repeat.

        Returns:
            The places of the values and the row references, both of shape (n,); None if the index
            has no pairs.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        del values
        return None

    def rows_with(self, values: Sequence[int]) -> Addresses | None:
        """Return the references of the few rows with one of some integers, in any order.

        None if it takes a `search`.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        del values
        return None

    def set_with(self, value: int) -> BitMap64 | None:
        """Return the references of the rows with one integer, if they are kept as a set.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        del value
        return None

    @abstractmethod
    def statistics(self) -> dict[str, Any]:
        """Return the figures of `index_stats` for this segment, by the reference's names."""

    @abstractmethod
    def prewarm(self) -> None:
        """Load everything into memory."""


@dataclass(frozen=True)
class Part(Generic[ThisIndex]):
    """A segment to merge.

    Attributes:
        index: The open segment.
        moves: Where its rows are now; None if all of them are where they were.
        has_rows: Whether any row may be left; if not, only its parameters matter.
    """

    index: ThisIndex
    moves: Moves | None = None
    has_rows: bool = True


class IndexType(ABC, Generic[ThisIndex]):
    """A type of index.

    Attributes:
        name: Name in the API, in upper case: "BTREE".
        type_url: Type URL of the details in the manifest.
        references: What identifies a row.
        files: Names of files by which segments without details are recognised.
        has_partitions: Whether indices have partitions that can outgrow their size.
        keeps_sets: Whether the rows with one value are kept as a set, see `Index.set_with`.
    """

    name: ClassVar[str]
    type_url: ClassVar[str]
    references: ClassVar[References]
    files: ClassVar[tuple[str, ...]] = ()
    has_partitions: ClassVar[bool] = False
    keeps_sets: ClassVar[bool] = False

    def index_version(self, *, has_stable_row_ids: bool, details: bytes = b"") -> int:
        """Return the version of the index format that new segments with these details have."""
        del details, has_stable_row_ids
        return 0

    def references_of(self, index_version: int) -> References | None:
        """Return what identifies a row in segments of a version; None if it is not supported."""
        return self.references if index_version == 0 else None

    @abstractmethod
    def require_supported(self, column: str, type: pa.DataType) -> None:
        """Raise an error if columns of a type cannot be indexed.

        Raises:
            UnsupportedTypeError: Names the column, its type and the types that can be.
        """

    @abstractmethod
    def parameters(self, given: Mapping[str, Any], type: pa.DataType) -> Any:
        """Check parameters and return them in the form that `train` takes.

        Raises:
            InvalidInputError: If one is unknown or invalid.
        """

    def default_name(self, column: str, parameters: Any) -> str:
        """Return the name of an index of a column that is given none."""
        del parameters
        return f"{column}_idx"

    def described(self, details: bytes) -> dict[str, Any]:
        """Return the parameters in the details, by the names of the reference; none by default."""
        del details
        return {}

    def require_same_parameters(self, details: Collection[bytes]) -> None:
        """Raise an error if segments with some details cannot be those of one index.

        Args:
            details: The details of each segment; by default they may differ.

        Raises:
            InvalidInputError: Says why.
        """
        del details

    def shared_models(self, rows: IndexRows, parameters: Any) -> dict[str, Any]:
        """Train the models that all segments of an index should have in common.

        Args:
            rows: All rows of the table, of which a sample is read.
            parameters: From `parameters`.

        Returns:
            Further parameters for `parameters`; none by default.
        """
        del rows, parameters
        return {}

    @abstractmethod
    def train(self, rows: IndexRows, parameters: Any, folder: IndexFolderWriter) -> bytes:
        """Write the files of a segment and return its details.

        Args:
            rows: May be empty.
            parameters: From `parameters`.
            folder: The folder of the new segment.

        Returns:
            The serialized message of the index details, without its type URL.
        """

    @abstractmethod
    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> ThisIndex:
        """Open a segment.

        Raises:
            CorruptFileError: If a file is damaged or missing.
        """

    @abstractmethod
    def merge(
        self, parts: Sequence[Part[ThisIndex]], rows: IndexRows | None, folder: IndexFolderWriter
    ) -> bytes:
        """Merge segments and new rows into a new segment, with the parameters of the last part.

        Args:
            parts: One or more segments of this type; rows that no longer exist are left out.
            rows: Rows to add; None for none.
            folder: The folder of the new segment.

        Returns:
            As `train`.

        Raises:
            CorruptFileError: If a file is damaged.
        """

    def can_merge(self, index: ThisIndex) -> bool:
        """Return whether a segment can be merged; the rows of others are read again."""
        del index
        return True

    def retrain(
        self, parts: Sequence[Part[ThisIndex]], rows: IndexRows | None, folder: IndexFolderWriter
    ) -> bytes:
        """Write rows alone into a new segment, with the parameters of the last part.

        Types with trained models override it, so that the models are trained on the rows.

        Args:
            parts: Segments whose rows are all gone.
            rows: See `merge`.
            folder: See `merge`.

        Returns:
            As `train`.
        """
        return self.merge(parts, rows, folder)

    def has_outgrown(self, segments: Sequence[ThisIndex], num_new_rows: int) -> bool:
        """Return whether an index is to be balanced when rows are added; see `has_partitions`.

        Args:
            segments: The segments of the index.
            num_new_rows: Number of rows to add.
        """
        del segments, num_new_rows
        return False

    def balance(
        self, parts: Sequence[Part[ThisIndex]], rows: IndexRows | None, folder: IndexFolderWriter
    ) -> bytes:
        """Write rows alone into a new segment, whose partitions have about the same size.

        Args:
            parts: As for `retrain`.
            rows: See `merge`.
            folder: See `merge`.

        Returns:
            As `train`.
        """
        return self.retrain(parts, rows, folder)
