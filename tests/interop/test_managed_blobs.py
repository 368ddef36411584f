"""Tables with managed blobs, and blobs below base paths: what the reference writes is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
import pilum.file
from pilum.errors import CorruptFileError, UnsupportedFeatureError

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

VALUES = [b"x", b"y" * 100_000, None, b"z" * 5_000_000, b"", b"w" * 70_000]
PLACES = list(range(len(VALUES)))


def schema(field: pa.Field | None = None) -> pa.Schema:
    fields = [pa.field("i", pa.int64()), field or lance.blob_field("b")]
    return pa.schema(fields, metadata={"lance.blob.managed": "true"})


def rows(values: list[Any], start: int = 0) -> pa.Table:
    numbers = pa.array(range(start, start + len(values)), pa.int64())
    return pa.table([numbers, lance.blob_array(values)], schema=schema())


@pytest.fixture
def path(tmp_path: Path) -> str:
    lance.write_dataset(rows(VALUES), tmp_path / "t")
    return str(tmp_path / "t")


def read(dataset: Any, places: list[int]) -> list[bytes | None]:
    return [
        None if blob is None else blob.readall() for blob in dataset.take_blobs("b", indices=places)
    ]


def test_what_the_reference_writes(path: str) -> None:
    dataset = pilum.dataset(path)
    kinds = [one and one["kind"] for one in dataset.to_table()["b"].to_pylist()]
    assert kinds == [0, 4, None, 4, 0, 4]
    assert dataset.to_table().equals(lance.dataset(path).to_table())
    assert read(dataset, PLACES) == VALUES
    found = dataset.to_table(blob_handling="all_binary", filter="i > 2")["b"].to_pylist()
    assert found == VALUES[3:]
    assert not (report := dataset.verify(deep=True)).damaged + report.missing, report


def test_after_a_compaction_and_with_references(path: str) -> None:
    lance.write_dataset(rows(VALUES[1:2], 10), path, mode="append")
    builder = lance.blob.BlobDescriptorArrayBuilder("b")
    Path(path, "_blobs/digits.blob").write_bytes(b"0123456789")
    for start, size in ((2, 3), (2, 3), (0, 0), (0, 10)):
        builder.append_managed("_blobs/digits.blob", start, size)
    new = pa.table([pa.array(range(4)), builder.finish()], schema=schema(builder.field))
    lance.write_dataset(new, path, mode="append").optimize.compact_files()
    dataset, expected = (
        pilum.dataset(path),
        [*VALUES, VALUES[1], b"234", b"234", b"", b"0123456789"],
    )
    assert dataset.to_table(blob_handling="all_binary")["b"].to_pylist() == expected
    assert read(dataset, list(range(11))) == expected


CHANGES: dict[str, Callable[[pilum.LanceDataset], Any]] = {
    "delete": lambda one: one.delete("i = 0"),
    "cleanup": lambda one: one.cleanup_old_versions(),
    "compact": lambda one: one.optimize.compact_files(),
    "append": lambda one: one.insert(pa.table({"i": [1], "b": pa.nulls(1, pa.large_binary())})),
    "clone": lambda one: one.shallow_clone(one.uri + "-clone", 1),
    "restore": lambda one: one.restore(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_written_to_such_tables(change: str, path: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="cannot write a table with managed blobs"):
        CHANGES[change](pilum.dataset(path))
    assert lance.dataset(path).version == 1


def test_objects_that_are_missing_or_short(path: str) -> None:
    objects = sorted(Path(path, "_blobs").iterdir(), key=lambda one: one.stat().st_size)
    objects[0].write_bytes(b"short")
    objects[-1].unlink()
    dataset = pilum.dataset(path)
    with pytest.raises(CorruptFileError, match=r"a blob ends at byte 170000 of 5"):
        dataset.to_table(blob_handling="all_binary", filter="i = 5")
    with pytest.raises(FileNotFoundError, match="_blobs"):
        dataset.to_table(blob_handling="all_binary", filter="i = 3")


def test_a_file_alone_has_descriptors(path: str) -> None:
    [file] = pilum.dataset(path).get_fragments()[0].data_files()
    reader = pilum.file.LanceFileReader(f"{path}/data/{file.path}")
    kinds = [one and one["kind"] for one in reader.read_all().to_table()["b"].to_pylist()]
    assert kinds == [0, 4, None, 4, 0, 4]


@pytest.mark.parametrize(
    "place", ["a\0b", "../up", "/etc/passwd", "a//b", "", "a/./b", "s3://b/c", "a\\b"]
)
def test_places_outside_of_the_base(place: str, path: str) -> None:
    fragment = pilum.dataset(path).snapshot.manifest.fragments[0]
    reader = pilum.dataset(path).snapshot.reader(fragment)
    with pytest.raises(CorruptFileError, match="no relative path"):
        reader.blob_below(0, place)
    with pytest.raises(CorruptFileError, match="does not say where base path 7 is"):
        reader.blob_below(7, "a/b")


def test_external_blobs_below_a_base_path(tmp_path: Path) -> None:
    base = tmp_path / "objects"
    base.mkdir()
    (base / "digits").write_bytes(b"0123456789")
    uri = (base / "digits").as_uri()
    values = [lance.blob.Blob.from_uri(uri), lance.blob.Blob.from_uri(uri, 3, 4), b"in"]
    table = pa.table({"b": lance.blob_array(values)}, schema=pa.schema([lance.blob_field("b")]))
    bases = [lance.DatasetBasePath(str(base), "objects", is_dataset_root=False)]
    made = lance.write_dataset(table, tmp_path / "t", initial_bases=bases)
    assert [one["blob_id"] for one in made.to_table()["b"].to_pylist()] == [1, 1, 0]
    dataset = pilum.dataset(tmp_path / "t")
    expected = [b"0123456789", b"3456", b"in"]
    assert dataset.to_table(blob_handling="all_binary")["b"].to_pylist() == expected
    assert read(dataset, [0, 1, 2]) == expected
