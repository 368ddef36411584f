"""The fragments of a manifest as bytes, and numbers about them that one kernel call finds.

    message    head ┃ fragment 0 ┃ fragment 1 ┃ … ┃ more of the head
                    ▲ starts[0]  ▲ ends[0]

The next version of a table copies these bytes. Only a few fragments are parsed: those that someone
reads, one for each layout of files, and those that are unusual: with anything that `_MEMBERS` does
not list, or that is never valid. The layout of a file is all but its path and its size.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from pilum import kernels
from pilum.errors import CorruptFileError
from pilum.format.messages import parse_message
from pilum.format.pb import table_pb2
from pilum.kernels.record_members import ODD, Form, RecordMember, Use

__all__ = ["FragmentSurvey", "Trait"]


class Trait(IntEnum):
    """Traits of a fragment, each of them a bit."""

    ODD = ODD
    DELETIONS = 2
    DELETIONS_ELSEWHERE = 4
    OVERLAYS = 8
    ROW_IDS = 16
    HIDDEN_COLUMNS = 32


_SCOPES = (table_pb2.DataFragment, table_pb2.DataFile, table_pb2.DeletionFile)
_FRAGMENT, _FILE, _DELETIONS = range(3)
_ID, _ROWS, _DELETED = range(3)
_SEQUENCES = (
    ("row_ids", Trait.ROW_IDS),
    ("last_updated_at_versions", 0),
    ("created_at_versions", 0),
)
_BANNED = ["\0", ".."]
"""What no path contains."""


def _number(message: type[Message], name: str) -> int:
    found: int = message.DESCRIPTOR.fields_by_name[name].number
    return found


def _member(
    scope: int,
    name: str,
    form: Form,
    argument: int = 0,
    *,
    uses: int = 0,
    traits: int = 0,
    group: int = 0,
) -> RecordMember:
    return RecordMember(scope, _number(_SCOPES[scope], name), form, uses, traits, group, argument)


def _sequence(name: str, traits: int, group: int) -> list[RecordMember]:
    """Describe a sequence of numbers of rows, which is stored in one of three ways."""
    hidden = traits | Trait.HIDDEN_COLUMNS
    return [
        _member(_FRAGMENT, f"inline_{name}", Form.BYTES, traits=traits, group=group),
        _member(_FRAGMENT, f"external_{name}", Form.EMPTY, traits=traits, group=group),
        _member(_FRAGMENT, f"spilled_{name}", Form.EMPTY, traits=hidden, group=group),
    ]


_MEMBERS = np.array(
    [
        _member(_FRAGMENT, "id", Form.COLUMN, _ID),
        _member(_FRAGMENT, "files", Form.PART, _FILE, uses=Use.REQUIRED),
        _member(_FRAGMENT, "deletion_file", Form.RECORD, _DELETIONS, traits=Trait.DELETIONS),
        _member(_FRAGMENT, "physical_rows", Form.COLUMN, _ROWS),
        *(
            one
            for group, (name, traits) in enumerate(_SEQUENCES, 1)
            for one in _sequence(name, traits, group)
        ),
        _member(_FRAGMENT, "overlays", Form.BYTES, uses=Use.STRANGE, traits=Trait.OVERLAYS),
        _member(_FILE, "path", Form.TEXT, uses=Use.FREE | Use.KEY | Use.REQUIRED),
        _member(_FILE, "fields", Form.NUMBERS),
        _member(_FILE, "column_indices", Form.NUMBERS),
        _member(_FILE, "file_major_version", Form.NUMBER),
        _member(_FILE, "file_minor_version", Form.NUMBER),
        _member(_FILE, "file_size_bytes", Form.NUMBER, uses=Use.FREE),
        _member(_FILE, "base_id", Form.NUMBER, uses=Use.KEY),
        _member(_DELETIONS, "file_type", Form.CODE, max(table_pb2.DeletionFile.FileType.values())),
        _member(_DELETIONS, "read_version", Form.NUMBER),
        _member(_DELETIONS, "id", Form.NUMBER),
        _member(_DELETIONS, "num_deleted_rows", Form.COLUMN, _DELETED),
        _member(_DELETIONS, "base_id", Form.NUMBER, traits=Trait.DELETIONS_ELSEWHERE),
    ],
    np.int64,
)
_DESCRIPTION = kernels.RecordDescription(
    _number(table_pb2.Manifest, "fragments"), _MEMBERS, _BANNED
)


@dataclass(frozen=True, slots=True, eq=False)
class FragmentSurvey:
    """The fragments of a manifest; none of them is checked.

    Attributes:
        data: The message of the manifest.
        starts: Where the entry of each fragment begins, int64, shape (n,).
        ends: Where it ends.
        ids: The id of each fragment, uint64.
        rows: Its number of rows, uint64; 0 if it was not recorded.
        deleted: Its number of deleted rows, uint64.
        traits: Its traits (`Trait`), uint8.
        samples: Places of fragments that have all layouts of data files, int64.
    """

    data: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    ids: NDArray[np.uint64]
    rows: NDArray[np.uint64]
    deleted: NDArray[np.uint64]
    traits: NDArray[np.uint8]
    samples: NDArray[np.int64]

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Survey the message of a manifest; raise CorruptFileError if it is none."""
        try:
            found = _DESCRIPTION.tabulate(data)
        except CorruptFileError as error:
            raise CorruptFileError(f"not a Manifest: {error}") from None
        starts, ends, columns, traits, samples = found
        ids, rows, deleted = columns[_ID], columns[_ROWS], columns[_DELETED]
        return cls(data, starts, ends, ids, rows, deleted, traits, samples)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def head(self) -> bytes:
        """The message without its fragments."""
        starts, ends, data = self.starts, self.ends, self.data
        if _are_adjacent(starts, ends):
            return data[: int(starts[0])] + data[int(ends[-1]) :] if len(self) else data
        return _joined(data, np.concatenate(([0], ends)), np.concatenate((starts, [len(data)])))

    def entries(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes of adjacent fragments, which are a part of a message as they are."""
        starts, ends = self.starts[start:stop], self.ends[start:stop]
        if _are_adjacent(starts, ends):
            return self.data[int(starts[0]) : int(ends[-1])] if len(starts) else b""
        return _joined(self.data, starts, ends)

    def parsed(self, start: int = 0, stop: int | None = None) -> list[table_pb2.DataFragment]:
        """Parse adjacent fragments; raise CorruptFileError if they are no messages."""
        return list(parse_message(table_pb2.Manifest, self.entries(start, stop)).fragments)

    def having(self, traits: int) -> list[int]:
        """Return the places of the fragments that have one of some traits."""
        found: list[int] = np.flatnonzero(self.traits & np.uint8(traits)).tolist()
        return found

    @property
    def all_traits(self) -> int:
        """The traits that any fragment has."""
        return int(np.bitwise_or.reduce(self.traits)) if np.count_nonzero(self.traits) else 0


def _are_adjacent(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> bool:
    """Return whether each range begins where the last one ends; true of most manifests."""
    return starts[1:].tobytes() == ends[:-1].tobytes()


def _joined(data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> bytes:
    """Return the bytes of ranges, most of which are empty or adjacent."""
    is_kept = starts < ends
    starts, ends = starts[is_kept], ends[is_kept]
    breaks = np.flatnonzero(starts[1:] != ends[:-1])
    firsts = np.concatenate((starts[:1], starts[1:][breaks])).tolist()
    lasts = np.concatenate((ends[:-1][breaks], ends[-1:])).tolist()
    return b"".join([data[first:last] for first, last in zip(firsts, lasts, strict=True)])
