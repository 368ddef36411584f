"""Overlays that contradict the format; what both libraries read is in tests/interop."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from pyroaring import BitMap

import pilum
import pilum.file
from pilum.bitmap import Bitmap
from pilum.dataset.metadata import FragmentMetadata
from pilum.errors import CorruptFileError, UnsupportedFeatureError
from pilum.format.fields import FieldId
from pilum.format.pb import table_pb2
from pilum.format.rows import RowRanges
from pilum.table.model.fragment import DataFile, OverlayFile
from pilum.table.model.overlay_rows import OverlayRows
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.session import Session

_ROWS = BitMap([1, 3]).serialize()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> pilum.LanceDataset:
    pairs = pa.array([[{"a": n, "b": n}] for n in range(5)])
    rows = pa.table({"i": range(5), "pairs": pairs})
    made = pilum.write_dataset(rows, tmp_path_factory.mktemp("overlays") / "t")
    values = pa.table({"i": [55, 77], "pairs": pairs[:2]})
    for name, own in (("values", values), ("short", values.slice(1))):
        path = f"{made.uri}/data/{name}.lance"
        with pilum.file.LanceFileWriter(path, own.schema) as writer:
            writer.write_batch(own)
    return made


def read(dataset: pilum.LanceDataset, *overlays: OverlayFile) -> list[object]:
    snapshot = dataset.snapshot
    fragment = replace(snapshot.manifest.fragments[0], overlays=overlays)
    reader = FragmentReader(Session(), snapshot.store, fragment)
    [field, *_] = reader.fields(snapshot.schema.fields)
    [segment] = field.segments(RowRanges.one(0, 5))
    found: list[object] = segment.read().to_pylist()
    return found


def overlay(rows: OverlayRows, *fields: int, name: str = "values", version: int = 1) -> OverlayFile:
    ids = tuple(map(FieldId, fields or (0,)))
    places = {0: 0, 3: 1, 4: 2}
    columns = tuple(places.get(one, 0) for one in ids)
    return OverlayFile(DataFile(f"{name}.lance", ids, columns, 2, 2), rows, version)


def shared(data: bytes) -> OverlayRows:
    return OverlayRows((data,), are_shared=True)


def test_the_highest_version_counts_and_then_the_last(dataset: pilum.LanceDataset) -> None:
    first, last = shared(BitMap([1, 3]).serialize()), shared(BitMap([3, 4]).serialize())
    assert read(dataset, overlay(first)) == [0, 55, 2, 77, 4]
    assert read(dataset, overlay(first), overlay(last)) == [0, 55, 2, 55, 77]
    assert read(dataset, overlay(last), overlay(first)) == [0, 55, 2, 77, 77]
    assert read(dataset, overlay(first, version=2), overlay(last)) == [0, 55, 2, 77, 77]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (b"", "not a Roaring bitmap"),
        (b"\xff" * 9, "not a Roaring bitmap"),
        (BitMap(range(1 << 20)).serialize(), "row 1048575 of 5 has a new value"),
        (BitMap([0, 5]).serialize(), "row 5 of 5"),
        (BitMap([0, 1, 2]).serialize(), "rows: the manifest says 3, the file 2"),
    ],
)
def test_damaged_rows(dataset: pilum.LanceDataset, rows: bytes, text: str) -> None:
    with pytest.raises(CorruptFileError, match=text) as caught:
        read(dataset, overlay(shared(rows)))
    assert "values.lance" in str(caught.value)


def test_rows_that_do_not_exist_are_not_listed(dataset: pilum.LanceDataset) -> None:
    rows = BitMap()
    rows.add_range(0, 1 << 32)
    rows.run_optimize()
    data = rows.serialize()
    assert len(data) < 1 << 20
    fragment = dataset.snapshot.manifest.fragments[0]
    damaged = replace(fragment, overlays=(overlay(shared(data)),))
    [found] = FragmentMetadata.from_table(damaged).overlays
    assert isinstance(found.offsets, Bitmap)
    assert len(found.offsets) == 1 << 32
    with pytest.raises(CorruptFileError, match="row 4294967295 of 5"):
        damaged.to_json()


def test_columns_of_other_lengths(dataset: pilum.LanceDataset) -> None:
    own = OverlayRows((_ROWS,), are_shared=False)
    with pytest.raises(CorruptFileError, match="rows: expected 2, found 1"):
        read(dataset, overlay(own, name="short"))
    assert read(dataset, overlay(own)) == [0, 55, 2, 77, 4]


def test_members_of_a_list_are_replaced_together(dataset: pilum.LanceDataset) -> None:
    leaves = [leaf.id for leaf in dataset.snapshot.schema.fields[1].leaves()]
    with pytest.raises(UnsupportedFeatureError, match="only some of the members of its lists"):
        read(dataset, overlay(shared(_ROWS), leaves[0]))
    apart = OverlayRows((_ROWS, BitMap([0, 1]).serialize()), are_shared=False)
    with pytest.raises(CorruptFileError, match="values in different rows"):
        read(dataset, overlay(apart, *leaves))


def test_a_bitmap_is_missing() -> None:
    message = table_pb2.DataOverlayFile()
    message.data_file.path = "x.lance"
    message.data_file.fields.extend([0, 1])
    message.data_file.column_indices.extend([0, 1])
    message.field_coverage.bitmaps.append(_ROWS)
    with pytest.raises(CorruptFileError, match="2 fields have 1 bitmaps"):
        OverlayFile.from_proto(message)
