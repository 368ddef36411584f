"""Public forms of the row ids of fragments and of the versions of their rows.

To keep row ids when rows are rewritten manually, set `RowIdSequence(ids).to_inline_metadata()` in
the new fragments; a commit of `LanceOperation.Update` takes the ids from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.table.model import row_id_sequence as table
from pilum.table.model.row_id_segments import MAX_ROWS
from pilum.table.model.stored_sequence import (
    CREATED_AT,
    ROW_IDS,
    SequenceKind,
    StoredSequence,
)

__all__ = ["RowDatasetVersionMeta", "RowIdMeta", "RowIdSequence", "stored_sequence"]


@dataclass(frozen=True)
class _SequenceMeta:
    """A sequence in the form that the manifest stores.

    Attributes:
        stored: The bytes, or the place where they are stored.
    """

    _kind: ClassVar[SequenceKind]
    stored: StoredSequence

    def asdict(self) -> Any:
        """Return a plain value that `json.dumps` accepts."""
        return self._kind.to_json(self.stored)

    def json(self) -> str:
        """Return the JSON form."""
        return json.dumps(self.asdict())

    @classmethod
    def from_dict(cls, dict: Any) -> Self:
        """Read the value that `asdict` returns.

        Raises:
            InvalidInputError: If the value is of another kind.
        """
        stored = cls._kind.from_json({cls._kind.json_name: dict})
        if stored is None:
            raise InvalidInputError(f"{cls._kind.json_name}: expected a sequence, found None")
        return cls(stored)

    @classmethod
    def from_json(cls, json: str) -> Self:
        """Read the JSON form that `json` returns.

        Raises:
            InvalidInputError: If the text is not JSON, or describes another kind of value.
        """
        return cls.from_dict(_parsed(json))


class RowIdMeta(_SequenceMeta):
    """The row ids of a fragment, as stored in the manifest; see `RowIdSequence`."""

    _kind = ROW_IDS


class RowDatasetVersionMeta(_SequenceMeta):
    """The versions in which rows of a fragment were created or last changed, as in the manifest."""

    _kind = CREATED_AT


class RowIdSequence:
    """A sequence of stable row ids, one per row of a fragment."""

    def __init__(self, row_ids: Iterable[int] | pa.Array | range) -> None:
        """Create a sequence.

        Args:
            row_ids: Unsigned 64-bit integers, in row order.

        Raises:
            InvalidInputError: If the row ids are anything else.
        """
        try:
            listed = row_ids if hasattr(row_ids, "__len__") else list(row_ids)
            ids = pa.array(listed, pa.uint64())
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
            raise InvalidInputError(f"row_ids: expected integers without sign ({error})") from error
        if ids.null_count:
            raise InvalidInputError("row_ids: expected integers, found nulls")
        self._sequence = table.RowIdSequence.of(ids.to_numpy())

    @staticmethod
    def from_inline_metadata(metadata: RowIdMeta) -> RowIdSequence:
        """Read the row ids of a fragment.

        Raises:
            UnsupportedFeatureError: If the ids are not stored in the manifest; a scan of `_rowid`
                reads them in any case.
            CorruptFileError: If the ids are damaged.
        """
        if not isinstance(metadata.stored, bytes):
            raise UnsupportedFeatureError("these row ids are not in the manifest")
        sequence = RowIdSequence(())
        sequence._sequence = table.RowIdSequence.from_bytes(metadata.stored, MAX_ROWS)
        return sequence

    def to_inline_metadata(self) -> RowIdMeta:
        """Return the form that `FragmentMetadata.row_id_meta` holds."""
        return RowIdMeta(self._sequence.to_bytes())

    def to_pyarrow(self) -> pa.Array:
        """Return the ids as a uint64 array."""
        return pa.array(self._sequence.ids())

    def __iter__(self) -> Iterator[int]:
        return iter(self._sequence.ids().tolist())

    def __len__(self) -> int:
        return len(self._sequence)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowIdSequence):
            return NotImplemented
        return np.array_equal(self._sequence.ids(), other._sequence.ids())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RowIdSequence({len(self)} row ids)"


def stored_sequence(
    kind: type[RowIdMeta | RowDatasetVersionMeta], meta: object
) -> StoredSequence | None:
    """Convert the public form of a sequence to its stored form; None stays None.

    Raises:
        InvalidInputError: If the value is of another kind.
    """
    if meta is None:
        return None
    if not isinstance(meta, kind):
        raise InvalidInputError(f"expected {kind.__name__} or None, found {meta!r}")
    return meta.stored


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"not JSON: {text!r} ({error})") from error
