"""Following a table: positions in its history, and the extent of the next micro-batch.

    {"version": 7, "fragment": 2, "snapshot": false}

means that everything before version 7 was read, and the first 2 pieces that version 7 adds. The end
of a version is followed by the beginning of the next one, which need not exist yet. With
`snapshot`, the pieces are all fragments of the version: a stream of all rows begins this way.

Version 0 is the beginning of a query that has read nothing; `Following` determines its position in
the table, once. The same offsets always mean the same rows, so a micro-batch that is planned again
after a crash equals the one that was lost. Source: docs/spark.md, "Following a table".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NoReturn

from pilum.distributed.versions import TableVersion
from pilum.errors import InvalidInputError, SchemaMismatchError, VersionNotFoundError
from pilum.format.fields import Field
from pilum.table.change_feed import Mark, Piece, Step, added_step, changed_step, whole_step
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.commit_handler import list_manifests, open_table
from pilum.table.versions.history import describe_version

__all__ = [
    "BEGINNING",
    "LATEST",
    "Follower",
    "Following",
    "Limit",
    "Mark",
    "Offset",
    "Piece",
    "QueryColumns",
    "foreign_offset",
]

LATEST = -1
"""Value of `starting_version` for none of the existing versions."""

_MAX_STEPS = 1000
_ITEM = "[]"


@dataclass(frozen=True)
class Following:
    """The way a table is followed.

    Attributes:
        starting_version: The first version whose rows are read, or `LATEST` for future versions
            only; by default all rows of the table, then added rows.
        starting_timestamp: Instead, the first version at or after this time (aware).
        read_change_feed: Whether to read row changes instead of new rows.
        on_change: How to handle versions that changed older rows, in a stream of new rows: "fail",
            "skip" them, or "reread" the fragments with the new values.
        fail_on_data_loss: Whether to fail if versions were cleaned up before they were read, or to
            continue with the first remaining version.
    """

    starting_version: int | None = None
    starting_timestamp: datetime | None = None
    read_change_feed: bool = False
    on_change: str = "fail"
    fail_on_data_loss: bool = True

    @property
    def passes_overwrites(self) -> bool:
        """Whether the stream continues after all rows of the table were replaced."""
        return self.on_change != "fail" or self.read_change_feed


@dataclass(frozen=True, slots=True)
class Offset:
    """A position in the history of a table.

    Attributes:
        version: The version to read next.
        fragment: Number of its pieces that were read already.
        snapshot: Whether its pieces are all of its fragments, not only its changes.
    """

    version: int
    fragment: int = 0
    snapshot: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that Spark stores in the checkpoint."""
        return {"version": self.version, "fragment": self.fragment, "snapshot": self.snapshot}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Offset:
        """Parse an offset that `to_json` wrote; raise InvalidInputError for any other value."""
        try:
            return cls(int(values["version"]), int(values["fragment"]), bool(values["snapshot"]))
        except (KeyError, TypeError, ValueError) as error:
            raise foreign_offset(values) from error


def foreign_offset(values: Mapping[str, Any]) -> InvalidInputError:
    """Return the error for a value that is not an offset of this source."""
    return InvalidInputError(
        f"not an offset of this source: {values!r}; is the checkpoint of another one?"
    )


BEGINNING = Offset(0)
"""The offset of a query that has read nothing, before all versions; always the same.

Spark logs the ends of micro-batches, and asks for the beginning again whenever it plans the first
one. So the answer must not depend on the state of the table at that moment.
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """The maximum size of one micro-batch; None for no limit.

    Attributes:
        files: Number of pieces.
        rows: Number of rows; the first piece is always taken whole.
        size_bytes: Bytes of data files; the first piece is always taken whole.
    """

    files: int | None = None
    rows: int | None = None
    size_bytes: int | None = None

    def without(self, piece: Piece) -> Limit | None:
        """Return the limit that remains after a piece; None if the piece does not fit."""
        left = Limit(
            _less(self.files, 1),
            _less(self.rows, piece.fragment.num_rows),
            _less(self.size_bytes, piece.size_bytes),
        )
        counts = (left.files, left.rows, left.size_bytes)
        return None if any(count is not None and count < 0 for count in counts) else left


@dataclass(frozen=True, slots=True)
class QueryColumns:
    """The fields of a table that a query reads, which must be the same in every version it reads.

        query reads   version 4       version 5           version 6, after a rename
        id, text      id:0  text:1    id:0  text:1  n:2   id:0  body:1  n:2     -> an error

    A field of a table keeps its id when it is renamed. A column that is dropped and added again, or
    that changes its type, gets another id. A version from before a column was added yields nulls
    for it.

    Attributes:
        ids: Field ids by path, such as "a", "s.x" for a member and "l[]" for the items of a list.
        version: The version in which the ids were looked up. A later version must have all of them.
        are_replaced: Whether another column of the same name may replace a column. This holds for
            queries that continue after the rows of a table were replaced.
    """

    ids: Mapping[str, int]
    version: int
    are_replaced: bool = False

    @classmethod
    def of(
        cls, table: TableVersion, wanted: Collection[str], *, are_replaced: bool
    ) -> QueryColumns:
        """Look up the fields that a query reads, in the version that it begins with.

        Unknown paths among `wanted` are ignored.
        """
        known = _paths(table.snapshot.schema.fields)
        ids = {path: number for path, number in known if path in wanted}
        return cls(ids, table.version, are_replaced)

    def require_in(self, version: TableVersion) -> None:
        """Raise SchemaMismatchError if a version has other columns; it may not have them yet."""
        table = dict(_paths(version.snapshot.schema.fields))
        if all(table.get(path) == number for path, number in self.ids.items()):
            return
        names = {number: path for path, number in table.items()}
        for path, number in self.ids.items():
            found = table.get(path)
            if found == number or (found is not None and self.are_replaced):
                continue
            if found is not None:
                self._refuse(version, path, f"is another column of that name (field {found})")
            if number in names:
                self._refuse(version, path, f"is called {names[number]!r}")
            if version.version > self.version:
                self._refuse(version, path, "is not there: it was dropped")

    def _refuse(self, version: TableVersion, path: str, found: str) -> NoReturn:
        uri = version.snapshot.store.uri
        raise SchemaMismatchError(
            f"{uri}: column {path!r} (field {self.ids[path]}), which the stream "
            f"reads, {found} in version {version.version}. A stream does not go on "
            "across a change of its columns: begin with a new checkpoint, which gives all rows "
            'under the names and types of today, or those of later versions with "startingVersion"'
        )


class Follower:
    """A cursor over the versions of one table; those with rows must have the query's columns."""

    def __init__(
        self,
        uri: str,
        options: Following,
        columns: QueryColumns | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._uri, self._access = uri, dict(storage_options or {})
        self._options = options
        self.columns = columns or QueryColumns({}, version=0)
        self._store = open_table(uri, self._access)
        self._steps: dict[Offset, Step] = {}

    def latest(self) -> TableVersion:
        """Return the newest version."""
        return self._version(Snapshot.latest(self._store))

    def mark(self, version: int, latest: TableVersion) -> Mark | None:
        """Return the mark of a version; None if the version is gone or there was none."""
        if version == latest.version:
            return Mark.of(latest.snapshot.manifest)
        with suppress(VersionNotFoundError):
            return Mark.of(Snapshot.at(self._store, version).manifest)
        return None

    def require_same(self, mark: Mark, latest: TableVersion) -> None:
        """Raise InvalidInputError if the table is not the one in which the mark was taken."""
        mark.require_in(self._store, latest.snapshot.manifest)

    def beginning(self, latest: int) -> Offset:
        """Return the offset at which the options begin a new stream.

        VersionNotFoundError is raised if the starting version does not exist yet. `latest` is the
        last version to read.
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
                f"startingVersion {options.starting_version}: {self._store.uri} has versions up "
                f"to {latest}"
            )
        return Offset(options.starting_version)

    def advance(self, start: Offset, limit: Limit, target: int) -> Offset:
        """Return the end of a micro-batch; it has at least one piece, if there is one.

        The batch begins at `start`; `target` is the last version to read.

        Raises:
            VersionNotFoundError: If a version was cleaned up and the options do not allow that.
            InvalidInputError: If a version did more than add rows and the options do not allow
                that, or if the table has no version `start` yet.
        """
        if start.version > target + 1:
            raise InvalidInputError(
                f"{self._store.uri} has versions up to {target}, and the stream has come to "
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
        """Yield the pieces between two offsets as `advance`, with the versions that added them."""
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
        """Drop the cached steps of versions that were read."""
        self._steps = {at: step for at, step in self._steps.items() if at.version >= end.version}

    def _step(self, offset: Offset, target: int) -> Step | None:
        """Return the step at an offset; None if nothing is left up to `target`."""
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
            left = [name.version for name in list_manifests(self._store, offset.version + 1)]
            versions = [version for version in left if offset.version < version <= target]
            if self._options.fail_on_data_loss:
                raise _gone(self._store.uri, offset.version, versions) from error
            return self._found(Offset(versions[0]), target) if versions else None

    def _load(self, offset: Offset) -> Step:
        snapshot = Snapshot.at(self._store, offset.version)
        if offset.snapshot:
            step = whole_step(snapshot)
        elif self._options.read_change_feed:
            step = changed_step(snapshot)
        else:
            step = added_step(snapshot)
        for version in {piece.version for piece in step.pieces}:
            there = version == offset.version
            found = snapshot if there else Snapshot.at(self._store, version)
            self.columns.require_in(self._version(found))
        return step

    def _version(self, snapshot: Snapshot) -> TableVersion:
        return TableVersion.opened(self._uri, snapshot, self._access)

    def _allowed(self, step: Step) -> Step:
        if step.changed_by is None or self._options.on_change == "reread":
            return step
        if self._options.on_change == "skip":
            return replace(step, pieces=())
        raise InvalidInputError(
            f"{self._store.uri}, version {step.version}: {step.changed_by} changed rows that were "
            "there before, and a stream of new rows cannot say so. Follow the changes with the "
            'option "readChangeFeed" (the table needs stable row ids), pass over such versions '
            'with "onChange" set to "skip", or get the fragments with new values once more with '
            '"reread"'
        )

    def _first_at(self, moment: datetime, latest: int) -> int:
        """Return the first version at or after a moment, by binary search."""
        versions = [name.version for name in list_manifests(self._store) if name.version <= latest]
        low, high = 0, len(versions)
        while low < high:
            middle = (low + high) // 2
            if describe_version(self._store, versions[middle]).timestamp < moment:
                low = middle + 1
            else:
                high = middle
        return versions[low] if low < len(versions) else latest + 1


def _less(count: int | None, taken: int) -> int | None:
    return None if count is None else count - taken


def _gone(uri: str, version: int, left: list[int]) -> VersionNotFoundError:
    rest = f"the next one is {left[0]}" if left else "there is none after it"
    return VersionNotFoundError(
        f"{uri}: the stream has come to version {version}, and it, or the one that it is compared "
        f"with, was cleaned up before it was read; {rest}. Begin again with a new checkpoint, or "
        'pass over what is lost with the option "failOnDataLoss" set to "false"; keep versions '
        "longer than a stream may rest"
    )


def _paths(fields: Iterable[Field], above: str = "") -> Iterator[tuple[str, int]]:
    """Yield the paths and ids of the fields of a table, in pre-order."""
    for one in fields:
        path = f"{above}{one.name}"
        yield path, one.id
        if one.is_struct:
            yield from _paths(one.children, f"{path}.")
        elif one.children:
            yield from _item_paths(one.item, f"{path}{_ITEM}")


def _item_paths(item: Field, path: str) -> Iterator[tuple[str, int]]:
    yield path, item.id
    if item.is_struct:
        yield from _paths(item.children, f"{path}.")
    elif item.children:
        yield from _item_paths(item.item, f"{path}{_ITEM}")
