"""Every field of a manifest at every boundary value: right rows or an error of this library.

The walk is that of `boundary_values`; the oracle are the rows that were written. What a manifest
may say as that of another table, equally whole, is listed here, with the reason.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from faults.boundary_values import Change, boundary_changes
from google.protobuf.message import Message

import pilum
from pilum import Session
from pilum.errors import PilumError
from pilum.format.pb import table_pb2, transaction_pb2

_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_SCHEMA = pa.schema(
    [
        pa.field("a", pa.int32(), nullable=False),
        ("s", pa.string()),
        ("st", pa.struct([("x", pa.float64()), ("y", pa.list_(pa.int64()))])),
        ("w", pa.int32()),
    ]
)
_ANOTHER_TABLE = {
    ("Manifest.fields", r"without \[\d\]"): "the column was dropped",
    ("Manifest.fragments", r"none|without \[\d\]|backwards"): "the rows were deleted, or moved",
    ("Field.id", r"7"): "the column was dropped, and another one added that is all null",
    ("DataFragment.deletion_file", r"none"): "no rows were deleted",
    ("Manifest.index_section", r"none"): "there was no index",
    ("IndexSection.indices", r"none|without \[0\]|\[0\] twice|an empty one more"): "other indices",
    ("IndexMetadata.name", r".*"): "it was renamed",
}
_COUNTED = {"DataFragment.physical_rows", "DeletionFile.num_deleted_rows"}
"""What only the files can prove wrong; a count looks at none of them, and `verify` at all."""


@dataclass(frozen=True)
class ManifestFile:
    """The newest manifest of a table, which can be written with other messages in it."""

    path: Path
    manifest: Any
    transaction: Any
    indices: Any

    @classmethod
    def read(cls, root: Path) -> ManifestFile:
        path = min((root / "_versions").glob("*.manifest"))
        data = path.read_bytes()
        position, *_ = _FOOTER.unpack(data[-_FOOTER.size :])
        manifest = table_pb2.Manifest.FromString(_section(data, position))
        transaction = transaction_pb2.Transaction.FromString(
            _section(data, manifest.transaction_section)
        )
        return cls(path, manifest, transaction, _indices())

    def write(self, changed: Message | None = None) -> None:
        """Write it with one of its three messages changed; pointers stay as that one has them."""
        body, manifest = bytearray(), table_pb2.Manifest()
        manifest.CopyFrom(self.manifest)
        for name, whole in (
            ("index_section", self.indices),
            ("transaction_section", self.transaction),
        ):
            setattr(manifest, name, len(body))
            body += _with_length(changed if type(changed) is type(whole) else whole)
        position = len(body)
        body += _with_length(changed if isinstance(changed, table_pb2.Manifest) else manifest)
        self.path.write_bytes(bytes(body) + _FOOTER.pack(position, 0, 2, b"LANC"))


def _section(data: bytes, offset: int) -> bytes:
    length = int(_LENGTH.unpack_from(data, offset)[0])
    start = offset + _LENGTH.size
    return data[start : start + length]


def _with_length(message: Message) -> bytes:
    data = bytes(message.SerializeToString())
    return _LENGTH.pack(len(data)) + data


def _indices() -> table_pb2.IndexSection:
    index = table_pb2.IndexMetadata(
        uuid=table_pb2.UUID(uuid=bytes(range(16))),
        fields=[0],
        name="a_idx",
        dataset_version=2,
        index_version=0,
        created_at=1_700_000_000_000,
        files=[table_pb2.IndexMetadata.File(path="page_data.lance", size_bytes=10)],
    )
    return table_pb2.IndexSection(indices=[index])


def with_indices(root: Path) -> ManifestFile:
    """The newest manifest, written again with an index."""
    ManifestFile.read(root).write()
    return ManifestFile.read(root)


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "a": list(numbers),
            "s": [f"text {n}" if n % 3 else None for n in numbers],
            "st": [{"x": n / 2 if n % 4 else None, "y": [n, None]} for n in numbers],
            "w": [n + 100 for n in numbers],
        },
        schema=_SCHEMA,
    )


def values(table: pa.Table) -> list[Any]:
    """The rows without the names of columns and members, which a table may change."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return tuple(map(bare, value.values()))
        return list(map(bare, value)) if isinstance(value, list) else value

    return [bare(row) for row in table.to_pylist()]


WRITTEN = values(rows(0, 8))
LEFT = [row for row in WRITTEN if row[0] != 1]
"""The rows of the newest version: one was deleted."""


def three_versions(path: Path, **given: Any) -> Path:
    """Write four rows, four more, and delete one."""
    options = {"sync": "false"}
    pilum.write_dataset(rows(0, 4), path, storage_options=options, **given)
    dataset = pilum.write_dataset(rows(4, 8), path, mode="append", storage_options=options)
    dataset.delete("a = 1")
    return path


_READS: dict[str, tuple[Callable[[pilum.LanceDataset], Any], Any]] = {
    "scan": (lambda found: values(found.to_table()), LEFT),
    "ids": (
        lambda found: len(set(found.to_table(["a"], with_row_id=True)["_rowid"].to_pylist())),
        7,
    ),
    "take": (lambda found: values(found.take([6, 0, 1])), [LEFT[6], LEFT[0], LEFT[1]]),
    "filter": (lambda found: values(found.to_table(filter="a in (2, 5)")), [LEFT[1], LEFT[4]]),
    "count": (lambda found: found.count_rows(), 7),
    "count of a filter": (lambda found: found.count_rows("a >= 3"), 5),
    "versions": (lambda found: len(found.versions()), 3),
    "indices": (lambda found: [index["name"] for index in found.list_indices()], ["a_idx"]),
    "transactions": (lambda found: len(found.get_transactions()), 3),
}


def wrong_answers(path: Path, *, verified: bool = True) -> dict[str, Any]:
    """What a user of the damaged table is given wrongly; another exception fails the test.

    Args:
        path: Of the table.
        verified: Whether to verify it in any case, and not only after a wrong answer.
    """
    found: dict[str, Any] = {}
    try:
        dataset = pilum.dataset(path, session=Session())
    except PilumError:
        return found
    for name, (read, expected) in _READS.items():
        try:
            answer = read(dataset)
        except PilumError:
            continue
        if answer != expected:
            found[name] = answer
    if (verified or found) and not dataset.verify(deep=True).is_valid:
        found["verify"] = "damaged"
    return found


def is_another_table(change: Change) -> bool:
    return any(
        change.kind == kind and re.fullmatch(value, change.value) for kind, value in _ANOTHER_TABLE
    )


def is_silent(change: Change, wrong: dict[str, Any]) -> bool:
    """Whether a wrong answer was given that nothing excuses."""
    answers = wrong.keys() - {"verify"}
    if not answers or is_another_table(change):
        return False
    if change.kind == "DataFragment.id":
        return answers != {"ids"}  # a fragment of another number, which rows have in their ids
    return not (change.kind in _COUNTED and "verify" in wrong)


@pytest.mark.parametrize(
    ("given", "part", "kinds"),
    [
        ({}, "manifest", r".*"),
        ({}, "transaction", r".*"),
        ({}, "indices", r".*"),
        ({"enable_stable_row_ids": True}, "manifest", r"DataFragment\..*"),
        ({"data_storage_version": "2.0"}, "manifest", r"(Field|DataFile)\..*"),
    ],
)
def test_right_rows_or_an_error_whatever_a_field_says(
    tmp_path: Path, given: dict[str, Any], part: str, kinds: str
) -> None:
    root = three_versions(tmp_path / "t", **given)
    file = with_indices(root)
    whole = wrong_answers(root)
    assert whole in ({}, {"verify": "damaged"})  # for the files of the index that are not there
    silent, raised, changed = [], [], Counter[str]()
    for change in boundary_changes(getattr(file, part)):
        if not re.fullmatch(kinds, change.kind):
            continue
        file.write(change.message)
        try:
            wrong = wrong_answers(root, verified=changed[change.kind] < 3)
        except Exception as error:
            raised.append((change.path, change.value, repr(error)))
            continue
        changed[change.kind] += 1
        if changed[change.kind] == 1:
            assert len(pilum.dataset(root, version=1).versions()) == 3
        if is_silent(change, wrong):
            silent.append((change.path, change.value, wrong))
    assert raised == []
    assert silent == []
    assert sum(changed.values()) > 100


@pytest.mark.parametrize("kind", ["Manifest.fields", "Field.id", "Field.name"])
def test_verify_compares_the_schema_with_the_transaction_that_made_it(
    tmp_path: Path, kind: str
) -> None:
    """What is right rows of another table to a reader is damage in the first version of a table."""
    pilum.write_dataset(rows(0, 4), tmp_path)
    file = with_indices(tmp_path)
    seen = 0
    for change in boundary_changes(file.manifest):
        if change.kind == kind:
            file.write(change.message)
            try:
                dataset = pilum.dataset(tmp_path)
            except PilumError:
                continue
            seen += 1
            faults = dataset.verify().damaged
            assert [fault for fault in faults if fault.path.endswith(".manifest")], change
    assert seen
