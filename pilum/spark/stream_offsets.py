"""Where a stream is in the history of a table, and how far the next micro-batch goes.

    {"version": 7, "fragment": 2, "snapshot": false}

is read: all that came before version 7 was given, and the first 2 pieces that version 7 brings.
Behind a version comes the beginning of the next one, which need not be there yet. With
`snapshot`, the pieces are all fragments of the version: so a stream begins that wants all rows.

Version 0 is the beginning of a query that has read nothing; where in the table that is, the options
say, once. The same offsets always mean the same rows, so a micro-batch that is planned again after
a crash is the one that was lost. Source: docs/spark.md, "Following a table".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pilum.errors import InvalidInputError, VersionNotFoundError
from pilum.spark.options import LATEST, Options
from pilum.spark.stream_columns import QueryColumns
from pilum.table.change_feed.steps import Piece, Step, added_step, changed_step, whole_step
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.history import describe_version, list_manifests
from pilum.table.versions.open import open_table

__all__ = ["BEGINNING", "Follower", "Limit", "Offset", "foreign_offset"]

_MAX_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Offset:
    """A place in the history of a table.

    Attributes:
        version: Of what comes next.
        fragment: How many of its pieces were given.
        snapshot: Whether its pieces are all of its fragments, not only what it brought.
    """

    version: int
    fragment: int = 0
    snapshot: bool = False

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it in the checkpoint."""
        return {"version": self.version, "fragment": self.fragment, "snapshot": self.snapshot}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Offset:
        """The offset that `to_json` wrote.

        Raises:
            InvalidInputError: If it did not.
        """
        try:
            return cls(int(values["version"]), int(values["fragment"]), bool(values["snapshot"]))
        except (KeyError, TypeError, ValueError) as error:
            raise foreign_offset(values) from error


def foreign_offset(values: Mapping[str, Any]) -> InvalidInputError:
    """Return the error for what is no offset of this source."""
    return InvalidInputError(
        f"not an offset of this source: {values!r}; is the checkpoint of another one?"
    )


BEGINNING = Offset(0)
"""Before everything: the offset of a query that has read nothing, and the only constant of it.

Spark keeps the ends of micro-batches, and asks for the beginning again whenever it plans the first
one. What the table was at that moment may not be in the answer.
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """How much one micro-batch takes; None for no limit.

    Attributes:
        files: Pieces.
        rows: Rows; the first piece is taken whole.
        size_bytes: Bytes of data files; the first piece is taken whole.
    """

    files: int | None = None
    rows: int | None = None
    size_bytes: int | None = None

    def without(self, piece: Piece) -> Limit | None:
        """What is left behind a piece; None if it does not fit."""
        left = Limit(
            _less(self.files, 1),
            _less(self.rows, piece.fragment.num_rows),
            _less(self.size_bytes, piece.size_bytes),
        )
        counts = (left.files, left.rows, left.size_bytes)
        return None if any(count is not None and count < 0 for count in counts) else left


class Follower:
    """Goes through the versions of one table.

    Attributes:
        store: Where the table is.
        columns: What the query reads, which each version with rows must have.
    """

    def __init__(self, options: Options, columns: QueryColumns | None = None) -> None:
        self._options = options
        self.columns = columns or QueryColumns({}, version=0)
        self.store = open_table(options.path, options.storage_options)
        self._steps: dict[Offset, Step] = {}

    def latest(self) -> Snapshot:
        """The newest version."""
        return Snapshot.latest(self.store)

    def beginning(self, latest: int) -> Offset:
        """Where the options say that a new stream begins.

        Args:
            latest: The last version that counts.

        Raises:
            VersionNotFoundError: If the starting version is yet to come.
        """
        options = self._options
        if options.starting_timestamp is not None:
            return Offset(self._first_at(options.starting_timestamp, latest))
        if options.starting_version is None:
            return Offset(latest, snapshot=True)
        if options.starting_version == LATEST:
            return Offset(latest + 1)
        if options.starting_version > latest + 1:
            raise VersionNotFoundError(
                f"startingVersion {options.starting_version}: {self.store.uri} has versions up "
                f"to {latest}"
            )
        return Offset(options.starting_version)

    def advance(self, start: Offset, limit: Limit, target: int) -> Offset:
        """The end of a micro-batch.

        Args:
            start: Its beginning.
            limit: How much it takes; at least one piece, if there is one.
            target: The last version that counts.

        Raises:
            VersionNotFoundError: If a version is gone, and that is not allowed.
            InvalidInputError: If a version did more than adding rows, and that is not allowed, or
                the table does not reach to `start`.
        """
        if start.version > target + 1:
            raise InvalidInputError(
                f"{self.store.uri} has versions up to {target}, and the stream has come to "
                f"{start.version}; if the table was dropped and made again, begin with a new "
                "checkpoint"
            )
        offset, left, is_first = start, limit, True
        while offset.version <= target and (step := self._step(offset, target)) is not None:
            same = step.version == offset.version
            skipped = offset.fragment if same else 0
            for number, piece in enumerate(step.pieces[skipped:], skipped):
                rest = left.without(piece)
                if rest is None and not is_first:
                    return Offset(step.version, number, offset.snapshot and same)
                left, is_first = rest or Limit(0, 0, 0), False
            offset = Offset(step.version + 1)
        return max(offset, Offset(target + 1), key=lambda one: one.version)

    def pieces(self, start: Offset, end: Offset) -> Iterator[tuple[int, Piece]]:
        """What lies between two offsets, each piece with the version that brought it.

        Raises:
            As `advance`.
        """
        offset = start
        while (offset.version, offset.fragment) < (end.version, end.fragment):
            step = self._step(offset, end.version)
            if step is None:
                return
            first = offset.fragment if step.version == offset.version else 0
            stop = end.fragment if step.version == end.version else None
            yield from ((step.version, piece) for piece in step.pieces[first:stop])
            offset = Offset(step.version + 1)

    def forget(self, end: Offset) -> None:
        """Lets go of what is known of versions that were given."""
        self._steps = {at: step for at, step in self._steps.items() if at.version >= end.version}

    def _step(self, offset: Offset, target: int) -> Step | None:
        """What comes at an offset; None if nothing is left up to `target`."""
        key = replace(offset, fragment=0)
        step = self._steps.get(key)
        if step is None:
            step = self._found(key, target)
            if step is None:
                return None
            if len(self._steps) >= _MAX_STEPS:
                self._steps.clear()
            self._steps[key] = step
        return step

    def _found(self, offset: Offset, target: int) -> Step | None:
        try:
            return self._allowed(self._load(offset))
        except VersionNotFoundError as error:
            left = [name.version for name in list_manifests(self.store, offset.version + 1)]
            versions = [version for version in left if offset.version < version <= target]
            if self._options.fail_on_data_loss:
                raise _gone(self.store.uri, offset.version, versions) from error
            return self._found(Offset(versions[0]), target) if versions else None

    def _load(self, offset: Offset) -> Step:
        snapshot = Snapshot.at(self.store, offset.version)
        if offset.snapshot:
            step = whole_step(snapshot)
        elif self._options.read_change_feed:
            step = changed_step(snapshot)
        else:
            step = added_step(snapshot)
        for version in {piece.version for piece in step.pieces}:
            there = version == offset.version
            self.columns.require_in(snapshot if there else Snapshot.at(self.store, version))
        return step

    def _allowed(self, step: Step) -> Step:
        if step.changed_by is None or self._options.on_change == "reread":
            return step
        if self._options.on_change == "skip":
            return replace(step, pieces=())
        raise InvalidInputError(
            f"{self.store.uri}, version {step.version}: {step.changed_by} changed rows that were "
            "there before, and a stream of new rows cannot say so. Follow the changes with the "
            'option "readChangeFeed" (the table needs stable row ids), pass over such versions '
            'with "onChange" set to "skip", or get the fragments with new values once more with '
            '"reread"'
        )

    def _first_at(self, moment: datetime, latest: int) -> int:
        """The first version at or after a moment; versions are searched by halves."""
        versions = [name.version for name in list_manifests(self.store) if name.version <= latest]
        low, high = 0, len(versions)
        while low < high:
            middle = (low + high) // 2
            if describe_version(self.store, versions[middle]).timestamp < moment:
                low = middle + 1
            else:
                high = middle
        return versions[low] if low < len(versions) else latest + 1


def _less(count: int | None, taken: int) -> int | None:
    return None if count is None else count - taken


def _gone(uri: str, version: int, left: list[int]) -> VersionNotFoundError:
    rest = f"the next one is {left[0]}" if left else "there is none behind it"
    return VersionNotFoundError(
        f"{uri}: the stream has come to version {version}, and it, or the one that it is compared "
        f"with, was cleaned up before it was read; {rest}. Begin again with a new checkpoint, or "
        'pass over what is lost with the option "failOnDataLoss" set to "false"; keep versions '
        "longer than a stream may rest"
    )
