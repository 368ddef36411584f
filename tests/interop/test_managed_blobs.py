"""Tables with managed blobs, and blobs below base paths: both libraries read and write them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
import pilum.file
from pilum.errors import CorruptFileError

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
    lance.write_dataset(rows(VALUES[1:2], start=10), path, mode="append")
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


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "create": lambda one, lib: lib.write_dataset(
        rows(VALUES), one.uri, mode="overwrite", data_storage_version="2.2"
    ),
    "append": lambda one, lib: lib.write_dataset(rows(VALUES, 10), one.uri, mode="append"),
    "reference": lambda one, lib: lib.write_dataset(referring(one, lib), one.uri, mode="append"),
    "merge": lambda one, lib: (
        one.merge_insert("i")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute(rows(VALUES[1:2], 3))
    ),
    "update": lambda one, lib: one.update({"i": "i + 100"}, where="i = 1"),
    "delete": lambda one, lib: one.delete("i = 3"),
    "compact": lambda one, lib: one.optimize.compact_files(),
    "cleanup": lambda one, lib: one.cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True
    ),
}


def referring(dataset: Any, library: Any) -> Any:
    """Return a row that refers to the first managed object of a table.

    The type that the reference registers does not know this form, so streams cannot have it.
    """
    [path, *_] = [one["blob_uri"] for one in kinds(dataset) if one and one["kind"] == 4]
    builder = BUILDERS[library]("b")
    builder.append_managed(path, 1, 5)
    table = pa.table([pa.array([20]), builder.finish()], schema=schema(builder.field))
    return table.to_batches() if library is pilum else table


BUILDERS = {
    pilum: pilum.BlobDescriptorArrayBuilder,
    lance: lance.blob.BlobDescriptorArrayBuilder,
}


def kinds(dataset: Any) -> list[Any]:
    return list(dataset.to_table()["b"].to_pylist())


@pytest.mark.parametrize("first", ["pilum", "lance"])
@pytest.mark.parametrize("second", ["pilum", "lance"])
def test_both_write_the_same_table_in_turn(first: str, second: str, tmp_path: Path) -> None:
    """After each change both libraries read the same rows, and no payload is lost."""
    libraries = {"pilum": pilum, "lance": lance}
    uri, expected = str(tmp_path / "t"), dict[int, bytes | None]()
    for number, (name, change) in enumerate([*CHANGES.items(), *CHANGES.items()]):
        library: Any = libraries[first if number % 2 == 0 else second]
        if number == 0:
            library.write_dataset(rows(VALUES), uri, data_storage_version="2.2")
        change(library.dataset(uri), library)
        found = payloads(pilum.dataset(uri))
        assert found == payloads(lance.dataset(uri)), name
        assert name != "cleanup" or found == expected
        assert kinds(pilum.dataset(uri)) == kinds(lance.dataset(uri))
        expected = found
        flags = pilum.dataset(uri).snapshot.manifest
        assert flags.reader_flags & flags.writer_flags & 16384
    assert expected.keys() >= {0, 101, 2, 4, 5, 20}
    report = pilum.dataset(uri).verify(deep=True)
    assert not report.damaged + report.missing, report


def payloads(dataset: Any) -> dict[int, bytes | None]:
    table = dataset.to_table(blob_handling="all_binary")
    return dict(zip(table["i"].to_pylist(), table["b"].to_pylist(), strict=True))


def test_what_pilum_writes(tmp_path: Path) -> None:
    """The objects, descriptors and flags are those that the reference writes."""
    written = {}
    for name, library in (("pilum", pilum), ("lance", lance)):
        uri = str(tmp_path / name)
        library.write_dataset(rows(VALUES), uri, data_storage_version="2.2")
        sizes = sorted(path.stat().st_size for path in Path(uri, "_blobs").iterdir())
        found = [one and {**one, "blob_uri": ""} for one in kinds(lance.dataset(uri))]
        manifest = pilum.dataset(uri).snapshot.manifest
        written[name] = sizes, found, manifest.reader_flags, manifest.writer_flags
    assert written["pilum"] == written["lance"]
    assert read(lance.dataset(tmp_path / "pilum"), PLACES) == VALUES


@pytest.mark.parametrize("is_root", [True, False])
@pytest.mark.parametrize("writer", ["pilum", "lance"])
def test_base_paths_clones_and_branches(writer: str, is_root: bool, tmp_path: Path) -> None:
    """Each library reads and compacts what the other one wrote below base paths."""
    library, other = (pilum, lance) if writer == "pilum" else (lance, pilum)
    base = library.DatasetBasePath(str(tmp_path / "base"), "base", is_dataset_root=is_root)
    (tmp_path / "base").mkdir()
    uri = str(tmp_path / "t")
    library.write_dataset(
        rows(VALUES),
        uri,
        initial_bases=[base],
        target_bases=["base"],
        data_storage_version="2.2",
    )
    library.write_dataset(rows(VALUES[:2], 6), uri, mode="append")
    expected = dict(enumerate([*VALUES, *VALUES[:2]]))
    library.dataset(uri).shallow_clone(str(tmp_path / "clone"), 2)
    library.dataset(uri).create_branch("dev")
    places = [uri, str(tmp_path / "clone"), f"{uri}/tree/dev"]
    for place in places:
        library.write_dataset(rows(VALUES[1:2], 8), place, mode="append")
        assert payloads(pilum.dataset(place)) == {**expected, 8: VALUES[1]}
    for compacting in (library, other):
        for place in places:
            compacting.dataset(place).optimize.compact_files()
            compacting.dataset(place).delete("i = 8")
            for reading in (pilum.dataset, lance.dataset):
                assert payloads(reading(place)) == expected
            found = kinds(pilum.dataset(place))
            assert {one["kind"] for one in found if one} == {0, 4, 5} - (
                {4} if place != uri else set()
            )


def test_sidecars_that_the_reference_adopted(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    for number in range(2):
        plain = rows(VALUES, start=6 * number).replace_schema_metadata(None)
        lance.write_dataset(plain, uri, mode="append", data_storage_version="2.2")
    lance.dataset(uri).update_schema_metadata({"lance.blob.managed": "true"})
    lance.dataset(uri).optimize.compact_files()
    pilum.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert not list(Path(uri).rglob("_blobs/*"))
    assert len(list(Path(uri).rglob("*.lance"))) == 1
    expected = dict(enumerate(VALUES * 2))
    assert payloads(pilum.dataset(uri)) == expected
    assert payloads(lance.dataset(uri)) == expected


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
    [_, blob] = pilum.dataset(path).snapshot.schema.fields
    with pytest.raises(CorruptFileError, match="no relative path"):
        reader.managed_blob(blob.id, place)
    with pytest.raises(CorruptFileError, match="no relative path"):
        reader.blob_below(7, place)
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
