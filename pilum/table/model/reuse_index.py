"""The fragment-reuse index: keeps indices of row addresses valid when rows move.

A compaction does not rewrite the files of an index. Instead, it records where rows moved, in the
details of an additional "index" named `__lance_frag_reuse`:

    version    version of the table that was compacted
    groups     changed_row_addrs    the rows that moved, as a 64-bit Roaring bitmap
               old_fragments        the fragments that contained them
               new_fragments        the fragments that contain them now, in the same order

    address in an index file ──▶ its rank in changed_row_addrs ──▶ row of the new fragments

Readers translate the results of an index version by version. Details of more than 200 KiB are
stored in a separate file. Source: docs/format/table.md, "The fragment-reuse index".
"""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from pyroaring import BitMap

from pilum.bitmap import roaring
from pilum.errors import CommitConflictError, CorruptFileError, UnsupportedFeatureError
from pilum.format.messages import parse_message
from pilum.format.pb import reuse_pb2, table_pb2
from pilum.storage.base import Store, write_object
from pilum.table.model.base_paths import index_place
from pilum.table.model.deletion_vector import load_deletions
from pilum.table.model.fragment import Fragment
from pilum.table.model.index_segments import covered_fragments
from pilum.table.model.manifest import Manifest
from pilum.table.model.names import index_folder

__all__ = ["Coverage", "Move", "load_moves", "move_group", "reuse_entry", "with_moves"]

_NAME = "__lance_frag_reuse"
_SYSTEM_PREFIX = "__lance_"
_TYPE_URL = "/lance.table.FragmentReuseIndexDetails"
_FILE_NAME = "details.binpb"
_MAX_INLINE_BYTES = 200 * 1024

_Details = reuse_pb2.FragmentReuseIndexDetails


@dataclass(frozen=True, slots=True)
class Move:
    """Fragments whose live rows moved, in order, to other fragments."""

    old: tuple[Fragment, ...]
    new: tuple[Fragment, ...]


class Coverage:
    """Coverage of a version's fragments by indices, after all recorded moves.

    UnsupportedFeatureError is raised if an index does not record the fragments that it covers.
    """

    def __init__(self, store: Store, manifest: Manifest) -> None:
        if manifest.has_doubtful_coverage:
            raise UnsupportedFeatureError(
                f"{store.uri}: the writer of the indices recorded wrong fragments for them, so "
                "no rows can be moved; drop the indices first"
            )
        self.section = table_pb2.IndexSection.FromString(manifest.index_section)
        self.versions = load_moves(store, self.section) or []
        moves = [
            (BitMap(one.id for one in group.old_fragments), [one.id for one in group.new_fragments])
            for version in self.versions
            for group in version.groups
        ]
        self._by_index = {
            position: _moved(_known(index), moves, index.name)
            for position, index in enumerate(self.section.indices)
            if not index.name.startswith(_SYSTEM_PREFIX)
        }

    def indices_of(self, fragment_id: int) -> frozenset[int]:
        """Return the indices that cover a fragment, by position in the section."""
        return frozenset(
            position for position, covered in self._by_index.items() if fragment_id in covered
        )

    def needs(self, moves: Iterable[Move], but_for: Collection[str] = ()) -> list[str]:
        """Return the names of the indices that cover a fragment that moves.

        Segments with uuids in `but_for` do not count.
        """
        old = BitMap(fragment.id for move in moves for fragment in move.old)
        return [
            str(self.section.indices[position].name)
            for position, covered in self._by_index.items()
            if not old.isdisjoint(covered) and self._uuid(position) not in but_for
        ]

    def move(self, moves: Iterable[Move], uuids: Collection[str] | None = None) -> None:
        """Extend the coverage of all indices, or of some segments, to the new fragments.

        CommitConflictError is raised if an index covers only part of a group of fragments that move
        together.
        """
        ids = [(BitMap(one.id for one in m.old), [int(one.id) for one in m.new]) for m in moves]
        for position, covered in self._by_index.items():
            index = self.section.indices[position]
            if uuids is not None and self._uuid(position) not in uuids:
                continue
            moved = _moved(covered, ids, index.name)
            if moved != BitMap.deserialize(index.fragment_bitmap):
                index.fragment_bitmap = moved.serialize()

    def _uuid(self, position: int) -> str:
        return str(UUID(bytes=self.section.indices[position].uuid.uuid))


def with_moves(
    store: Store, manifest: Manifest, moves: Sequence[Move]
) -> tuple[bytes, tuple[str, ...]]:
    """Return the `IndexSection` of a version in which rows moved, with a record of the moves.

    Also return the paths of files that were written for it: long details are in files. The errors
    are those of `Coverage`.
    """
    coverage = Coverage(store, manifest)
    coverage.move(moves)
    version = _Details.Version(
        dataset_version=manifest.version, groups=[move_group(store, move) for move in moves]
    )
    content = _Details.Content(versions=[*coverage.versions, version])
    entry, written = _entry(store, manifest, moves, content)
    _replace_entry(coverage.section, entry)
    data: bytes = coverage.section.SerializeToString(deterministic=True)
    return data, written


def load_moves(
    store: Store, section: table_pb2.IndexSection
) -> list[reuse_pb2.FragmentReuseIndexDetails.Version] | None:
    """Read the moves that compactions recorded, oldest first; None if there is no such index."""
    index = reuse_entry(section)
    if index is None:
        return None
    details = parse_message(_Details, index.index_details.value, f"index {_NAME}")
    if not details.HasField("external"):
        return list(details.inline.versions)
    place = details.external
    home, folder = index_place(store, index)
    path = f"{folder}/{place.path}"
    data = home.read(path)[place.offset : place.offset + place.size]
    if len(data) != place.size:
        raise CorruptFileError(f"expected {place.size} bytes, found {len(data)}", path)
    return list(parse_message(_Details.Content, data, path).versions)


def reuse_entry(section: table_pb2.IndexSection) -> table_pb2.IndexMetadata | None:
    """Return the entry of the fragment-reuse index, None if there is none."""
    return next((index for index in section.indices if index.name == _NAME), None)


def _known(index: table_pb2.IndexMetadata) -> BitMap:
    covered = covered_fragments(index)
    if covered is None:
        raise UnsupportedFeatureError(
            f"index {index.name!r} does not record which fragments it covers, so no rows can be "
            "moved; drop it, and create it again afterwards"
        )
    return covered


def _moved(covered: BitMap, moves: Iterable[tuple[BitMap, list[int]]], name: str) -> BitMap:
    """Return the fragments that an index covers after moves."""
    for old, new in moves:
        if old <= covered:
            covered = (covered - old) | BitMap(new)
        elif not old.isdisjoint(covered):
            raise CommitConflictError(
                f"index {name!r} covers the fragments {list(old & covered)} of {list(old)}, which "
                "were rewritten together; plan the compaction again on the latest version",
                retryable=True,
            )
    return covered


def move_group(store: Store, move: Move) -> reuse_pb2.FragmentReuseIndexDetails.Group:
    """Return the record of a move."""
    return _Details.Group(
        changed_row_addrs=_addresses(store, move.old),
        old_fragments=map(_digest, move.old),
        new_fragments=map(_digest, move.new),
    )


def _digest(fragment: Fragment) -> _Details.Fragment:
    return _Details.Fragment(
        id=fragment.id,
        physical_rows=fragment.physical_rows,
        num_deleted_rows=fragment.num_deleted_rows,
    )


def _addresses(store: Store, fragments: Iterable[Fragment]) -> bytes:
    """Return the live rows of fragments as a 64-bit Roaring bitmap, in portable serialization."""
    parts = []
    for fragment in sorted(fragments, key=lambda fragment: fragment.id):
        rows = BitMap(range(fragment.physical_rows))
        deleted = load_deletions(store, fragment)
        if deleted is not None:
            rows -= roaring(deleted.offsets)
        if rows:
            rows.run_optimize()
            parts.append(struct.pack("<I", fragment.id) + rows.serialize())
    return struct.pack("<Q", len(parts)) + b"".join(parts)


def _entry(
    store: Store, manifest: Manifest, moves: Iterable[Move], content: _Details.Content
) -> tuple[table_pb2.IndexMetadata, tuple[str, ...]]:
    number = uuid4()
    entry = table_pb2.IndexMetadata(
        uuid=table_pb2.UUID(uuid=number.bytes),
        name=_NAME,
        dataset_version=manifest.version,
        index_version=0,
        created_at=time.time_ns() // 10**6,
    )
    old = {fragment.id for move in moves for fragment in move.old}
    gone = BitMap(old)
    present = BitMap(fragment.id for fragment in manifest.fragments) - gone
    new = BitMap(fragment.id for move in moves for fragment in move.new)
    entry.fragment_bitmap = ((_covered_before(manifest) & present) | new).serialize()
    data: bytes = content.SerializeToString(deterministic=True)
    entry.index_details.type_url = _TYPE_URL
    if len(data) <= _MAX_INLINE_BYTES:
        entry.index_details.value = _Details(inline=content).SerializeToString(deterministic=True)
        return entry, ()
    path = f"{index_folder(str(number))}/{_FILE_NAME}"
    write_object(store, path, data)
    place = table_pb2.ExternalFile(path=_FILE_NAME, size=len(data))
    entry.index_details.value = _Details(external=place).SerializeToString(deterministic=True)
    return entry, (path,)


def _covered_before(manifest: Manifest) -> BitMap:
    section = table_pb2.IndexSection.FromString(manifest.index_section)
    entry = reuse_entry(section)
    return (entry and covered_fragments(entry)) or BitMap()


def _replace_entry(section: table_pb2.IndexSection, entry: table_pb2.IndexMetadata) -> None:
    others = [index for index in section.indices if index.name != _NAME]
    kept = [table_pb2.IndexMetadata.FromString(index.SerializeToString()) for index in others]
    del section.indices[:]
    section.indices.extend([*kept, entry])
