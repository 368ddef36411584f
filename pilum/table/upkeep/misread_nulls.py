"""Data files with null structs that some readers misread.

pilum evaluates all layers of all pages, so it reads these files correctly. The reference does not
if it reads a member alone:

    struct c       item with nulls       {x: 1}   null   {x: 3}
    member c.x     item, all valid           1      2        3        it sees the 2

nor if a struct contains lists and the pages that it reads together differ:

    page 0    struct c: item, all valid        it counts values of the list as structs
    page 1    struct c: item with nulls

Early releases of pilum wrote files of the first kind, and both libraries files of the second.
Rewritten rows are in neither. Source: docs/format/encodings-2.1.md, "Levels".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from pilum.container.fields import LeafFieldReader
from pilum.container.segments import FieldReader
from pilum.errors import PilumError
from pilum.format.fields import Field
from pilum.format.paths import LeafPath, nullable_above_lists
from pilum.format.pb import encodings21_pb2 as pb
from pilum.storage.base import prefetch
from pilum.table.model.fragment import DataFile, Fragment, FragmentId
from pilum.table.read.snapshot import Snapshot

__all__ = ["files_with_misread_nulls", "fragments_with_misread_nulls"]


def fragments_with_misread_nulls(
    snapshot: Snapshot, fragments: Sequence[Fragment]
) -> frozenset[FragmentId]:
    """Return those of some fragments with such files; open all if the table has structs."""
    return frozenset(fragment.id for fragment, members in _found(snapshot, fragments) if members)


def files_with_misread_nulls(snapshot: Snapshot) -> Iterator[tuple[DataFile, list[str]]]:
    """Yield such files of a version, each with the names of its misread members."""
    for fragment, members in _found(snapshot, snapshot.manifest.fragments):
        for file in fragment.files:
            own = [path for path in members if path[-1].id in file.fields]
            if own:
                yield file, [".".join(field.name for field in path) for path in own]


def _found(
    snapshot: Snapshot, fragments: Sequence[Fragment]
) -> Iterator[tuple[Fragment, list[LeafPath]]]:
    fields = [field for field in snapshot.described.fields if any(map(_may_be_null, field.walk()))]
    if not fields:
        return
    tasks = (partial(_members, snapshot, fragment, fields) for fragment in fragments)
    yield from zip(fragments, prefetch(snapshot.store, tasks), strict=True)


def _may_be_null(field: Field) -> bool:
    return field.is_struct and field.nullable and not field.is_leaf


def _members(snapshot: Snapshot, fragment: Fragment, fields: Sequence[Field]) -> list[LeafPath]:
    try:
        readers = snapshot.reader(fragment).fields(fields)
        return [path for reader in readers for path in _members_of(reader)]
    except (PilumError, OSError):
        return []  # other checks report faults of the files


def _members_of(reader: FieldReader) -> Iterator[LeafPath]:
    if not isinstance(reader, LeafFieldReader):
        return  # files before 2.1 have no nulls of structs
    for path in reader.field.leaf_paths():
        leaf = reader.leaves.get(path[-1].id)
        if leaf and len(path) > 1:
            pages = [layout for _, layout in leaf.column.entries]
            kinds = {_layers(layout) for layout in pages if not layout.HasField("sparse_layout")}
            if _differ(path, kinds) or any(_hides_nulls(path, layers) for layers in kinds):
                yield path


def _layers(layout: pb.PageLayout) -> tuple[Any, ...]:
    """Return the kinds of the layers of a page, outermost first."""
    return tuple(reversed(getattr(layout, str(layout.WhichOneof("layout"))).layers))


def _hides_nulls(path: LeafPath, layers: Sequence[Any]) -> bool:
    """Return whether a struct has nulls that the layers of its contents do not record."""
    return any(
        outer.is_struct and outer_kind == pb.NULLABLE_ITEM and inner_kind == pb.ALL_VALID_ITEM
        for (outer, outer_kind), (_, inner_kind) in pairwise(zip(path, layers, strict=False))
    )


def _differ(path: LeafPath, kinds: set[tuple[Any, ...]]) -> bool:
    """Return whether only some of the pages say that the parents of lists may be null."""
    above_lists = nullable_above_lists(path)
    said = {
        tuple(kind for kind, is_above in zip(layers, above_lists, strict=False) if is_above)
        for layers in kinds
    }
    return len(said) > 1
