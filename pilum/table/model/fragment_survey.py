"""The fragments of a manifest as bytes, and numbers about them that one kernel call finds.

    message    head ┃ fragment 0 ┃ fragment 1 ┃ … ┃ more of the head
                    ▲ starts[0]  ▲ ends[0]

The next version of a table copies these bytes. Only a few fragments are parsed: those that someone
reads, one for each layout of files, and those that are unusual (`rust/kernels/src/
fragment_survey.rs` says which).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import Self

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from pilum import kernels
from pilum.errors import CorruptFileError
from pilum.format.pb import table_pb2

__all__ = ["FragmentSurvey", "Trait"]


class Trait(IntFlag):
    """Traits of a fragment."""

    ODD = 1
    DELETIONS = 2
    DELETIONS_ELSEWHERE = 4
    OVERLAYS = 8
    ROW_IDS = 16
    HIDDEN_COLUMNS = 32


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
            return cls(data, *kernels.survey_fragments(np.frombuffer(data, np.uint8)))
        except CorruptFileError as error:
            raise CorruptFileError(f"not a Manifest: {error}") from None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def head(self) -> bytes:
        """The message without its fragments."""
        starts = np.append(self.starts, len(self.data))
        return _joined(self.data, np.insert(self.ends, 0, 0), starts)

    def entries(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes of adjacent fragments, which are a part of a message as they are."""
        return _joined(self.data, self.starts[start:stop], self.ends[start:stop])

    def parsed(self, start: int = 0, stop: int | None = None) -> list[table_pb2.DataFragment]:
        """Parse adjacent fragments; raise CorruptFileError if they are no messages."""
        try:
            whole = table_pb2.Manifest.FromString(self.entries(start, stop))
        except (DecodeError, UnicodeDecodeError) as error:
            raise CorruptFileError(f"not a Manifest: {error}") from error
        return list(whole.fragments)

    def having(self, traits: Trait) -> list[int]:
        """Return the places of the fragments that have one of some traits."""
        found: list[int] = np.flatnonzero(self.traits & np.uint8(traits)).tolist()
        return found

    @property
    def all_traits(self) -> Trait:
        """The traits that any fragment has."""
        return Trait(int(np.bitwise_or.reduce(self.traits)))


def _joined(data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> bytes:
    """Return the bytes of ranges, most of which are empty or adjacent."""
    starts, ends = starts[starts < ends], ends[starts < ends]
    breaks = np.flatnonzero(starts[1:] != ends[:-1])
    firsts = np.concatenate((starts[:1], starts[1:][breaks])).tolist()
    lasts = np.concatenate((ends[:-1][breaks], ends[-1:])).tolist()
    return b"".join([data[first:last] for first, last in zip(firsts, lasts, strict=True)])
