"""Tables with managed blobs: payloads in objects that no data file owns, shared by rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.blob import BlobDescriptorArrayBuilder
from pilum.distributed import commit_parts, start_job, write_part
from pilum.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)
from pilum.fragment import LanceFragment, write_fragments
from pilum.table.model.features import Feature

MANAGED = {"lance.blob.managed": "true"}
INLINE, PACKED, DEDICATED = b"in", b"packed" * 4, b"dedicated" * 20
VALUES = [INLINE, PACKED, None, DEDICATED, b"", PACKED[::-1]]


def schema(metadata: dict[str, str] | None = MANAGED) -> pa.Schema:
    blob = pilum.blob_field("b", inline_size_threshold=4, dedicated_size_threshold=100)
    return pa.schema([pa.field("i", pa.int64()), blob], metadata=metadata)


def rows(values: list[bytes | None], start: int = 0, **more: Any) -> pa.Table:
    numbers = pa.array(range(start, start + len(values)), pa.int64())
    return pa.table([numbers, pilum.blob_array(values)], schema=schema(**more))


def references(start: int, *places: tuple[str, int, int], **more: Any) -> list[pa.RecordBatch]:
    """Rows that refer to ranges of objects; as batches, so that no registered type is asked."""
    builder = BlobDescriptorArrayBuilder("b")
    for place in places:
        builder.append_managed(*place, **more)
    fields = pa.schema([pa.field("i", pa.int64()), builder.field], metadata=MANAGED)
    numbers = pa.array(range(start, start + len(places)), pa.int64())
    return [pa.record_batch([numbers, builder.finish()], schema=fields)]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return pilum.write_dataset(rows(VALUES), tmp_path / "t", data_storage_version="2.2").uri


def read(uri: str, **more: Any) -> dict[int, bytes | None]:
    table = pilum.dataset(uri, **more).to_table(blob_handling="all_binary")
    return dict(zip(table["i"].to_pylist(), table["b"].to_pylist(), strict=True))


def descriptors(uri: str) -> dict[int, dict[str, Any]]:
    found = pilum.dataset(uri).to_table().to_pylist()
    return {row["i"]: row["b"] for row in found if row["b"] is not None}


def objects(uri: str) -> dict[str, bytes]:
    """The contents of all files with payloads, by path."""
    found = Path(uri).rglob("*.blob")
    return {str(path.relative_to(uri)): path.read_bytes() for path in found}


def flags(uri: str) -> tuple[int, int]:
    manifest = pilum.dataset(uri).snapshot.manifest
    return manifest.reader_flags, manifest.writer_flags


def test_payloads_go_to_objects(uri: str) -> None:
    assert read(uri) == dict(enumerate(VALUES))
    found = objects(uri)
    assert sorted(found.values(), key=len) == [PACKED + PACKED[::-1], DEDICATED]
    assert all(path.startswith("_blobs/") for path in found)
    kinds = {number: one["kind"] for number, one in descriptors(uri).items()}
    assert kinds == {0: 0, 1: 4, 3: 4, 4: 0, 5: 4}
    assert flags(uri) == (Feature.MANAGED_BLOBS, Feature.MANAGED_BLOBS)
    pilum.write_dataset(rows([PACKED], 6, metadata=None), uri, mode="append", max_rows_per_file=1)
    assert read(uri) == dict(enumerate([*VALUES, PACKED]))
    assert len(objects(uri)) == 3
    assert not pilum.dataset(uri).verify(deep=True).faults


def test_the_table_decides_not_the_appended_rows(tmp_path: Path) -> None:
    plain = str(tmp_path / "plain")
    pilum.write_dataset(rows([PACKED], metadata=None), plain, data_storage_version="2.2")
    pilum.write_dataset(rows([PACKED], 1), plain, mode="append")
    assert flags(plain) == (0, 0)
    assert all(path.startswith("data/") for path in objects(plain))
    pilum.dataset(plain).update_schema_metadata(MANAGED)
    pilum.write_dataset(rows([PACKED], 2, metadata=None), plain, mode="append")
    assert [one["kind"] for one in descriptors(plain).values()] == [1, 1, 4]
    # The flag stays: older versions and data files may still have managed blobs.
    pilum.dataset(plain).update_schema_metadata({"lance.blob.managed": "false"})
    pilum.write_dataset(rows([PACKED], 3), plain, mode="append")
    assert descriptors(plain)[3]["kind"] == 1
    pilum.write_dataset(rows([PACKED], 4, metadata=None), plain, mode="overwrite")
    pilum.dataset(plain, version=1).restore()
    assert flags(plain) == (Feature.MANAGED_BLOBS, Feature.MANAGED_BLOBS)


@pytest.mark.parametrize("text", ["True", "", "yes"])
def test_unclear_metadata_are_refused(text: str, uri: str, tmp_path: Path) -> None:
    unclear = {"lance.blob.managed": text}
    with pytest.raises(InvalidInputError, match="'true' or 'false'"):
        pilum.write_dataset(rows([PACKED], metadata=unclear), tmp_path / "new")
    assert not list(tmp_path.glob("new/*/*"))
    with pytest.raises(InvalidInputError, match="'true' or 'false'"):
        pilum.dataset(uri).update_schema_metadata(unclear)
    assert pilum.dataset(uri).version == 1


def test_a_failed_write_leaves_no_object(uri: str) -> None:
    before = objects(uri)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows([PACKED, DEDICATED], 6).to_batches()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pilum.write_dataset(batches(), uri, schema(), mode="append", max_rows_per_file=1)
    assert objects(uri) == before
    assert pilum.dataset(uri).version == 1


def test_rows_share_bytes(uri: str) -> None:
    path = descriptors(uri)[1]["blob_uri"]
    before = objects(uri)
    pilum.write_dataset(references(6, (path, 6, 6), (path, 6, 6), (path, 3, 0)), uri, mode="append")
    assert objects(uri) == before
    assert read(uri) == dict(enumerate([*VALUES, b"packed", b"packed", b""]))
    [file] = pilum.dataset(uri).take_blobs("b", indices=[6])
    assert file is not None
    with file:
        assert file.read_range(1, 3) == b"ack"


def test_a_table_may_begin_with_references(tmp_path: Path) -> None:
    table = tmp_path / "t"
    (table / "_blobs").mkdir(parents=True)
    (table / "_blobs" / "digits.blob").write_bytes(b"0123456789")
    builder = BlobDescriptorArrayBuilder("b")
    builder.append_managed("_blobs/digits.blob", 2, 3)
    builder.append_null()
    builder.append_inline(b"inline" * 100)
    struct = pa.StructArray.from_arrays([builder.finish()], fields=[builder.field])
    batch = pa.record_batch([struct], names=["s"]).replace_schema_metadata(MANAGED)
    made = pilum.write_dataset([batch], table, data_storage_version="2.2")
    found = made.to_table(columns=["s.b"], blob_handling="all_binary")["s.b"].to_pylist()
    assert found == [b"234", None, b"inline" * 100]
    # New rows are given as in any table of blobs.
    new = pilum.blob_array([b"new"]).storage
    field = pa.field("b", new.type, metadata={"ARROW:extension:name": "lance.blob.v2"})
    batch = pa.record_batch([pa.StructArray.from_arrays([new], fields=[field])], names=["s"])
    made.insert([batch])
    assert [data for _, data in made.read_blobs("s.b", indices=[0, 3])] == [b"234", b"new"]


WRONG_PLACES: dict[str, Callable[[], Any]] = {
    "no relative path": lambda: references(0, ("../a.blob", 0, 1)),
    "absolute": lambda: references(0, ("/a.blob", 0, 1)),
    "a URI": lambda: references(0, ("s3://bucket/a.blob", 0, 1)),
    "no text": lambda: references(0, (b"a.blob", 0, 1)),  # type: ignore[arg-type]
    "no offset": lambda: references(0, ("a.blob", -1, 1)),
    "beyond 64 bits": lambda: references(0, ("a.blob", 1 << 63, 1 << 63)),
    "no base": lambda: references(0, ("a.blob", 0, 1), base_id=-1),
    "beyond 32 bits": lambda: references(0, ("a.blob", 0, 1), base_id=1 << 32),
}


@pytest.mark.parametrize("name", WRONG_PLACES)
def test_places_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError):
        WRONG_PLACES[name]()


def with_member(batches: list[pa.RecordBatch], **members: Any) -> list[pa.RecordBatch]:
    """The batches, with other values in the only row."""
    [batch] = batches
    row = {**batch.column(1)[0].as_py(), **members}
    blobs = pa.array([row], batch.column(1).type)
    return [pa.record_batch([batch.column(0), blobs], schema=batch.schema)]


def test_descriptors_that_a_table_cannot_have_are_refused(uri: str, tmp_path: Path) -> None:
    one = references(6, ("a.blob", 0, 1))

    def append(batches: list[pa.RecordBatch]) -> None:
        pilum.write_dataset(batches, uri, mode="append")

    with pytest.raises(InvalidInputError, match=r"base path 3; the table has the base paths \[\]"):
        append(references(6, ("a.blob", 0, 1), base_id=3))
    with pytest.raises(InvalidInputError, match="base path 3"):
        append(with_member(one, blob_id=3))
    with pytest.raises(InvalidInputError, match="relative path"):
        append(with_member(one, uri="../a.blob"))
    with pytest.raises(InvalidInputError, match="has no position"):
        append(with_member(one, position=None))
    with pytest.raises(InvalidInputError, match="has no uri"):
        append(with_member(one, uri=None))
    with pytest.raises(InvalidInputError, match="allow_external_blob_outside_bases"):
        append(with_member(one, kind=3, uri="file:///a.blob"))
    for kind, name in ((1, "packed"), (2, "dedicated")):
        with pytest.raises(UnsupportedFeatureError, match=f"{name} blobs belong to one data file"):
            append(with_member(one, kind=kind, blob_id=1))
    with pytest.raises(SchemaMismatchError, match="not as descriptors"):
        pilum.dataset(uri).merge_insert("i").when_not_matched_insert_all().execute(one)
    assert pilum.dataset(uri).version == 1
    plain = pilum.write_dataset(
        rows(VALUES, metadata=None), tmp_path / "plain", data_storage_version="2.2"
    )
    with pytest.raises(UnsupportedTypeError, match="create the table with managed blobs"):
        pilum.write_dataset(one, plain.uri, mode="append")


CHANGES: dict[str, Callable[[pilum.LanceDataset], Any]] = {
    "insert": lambda one: one.insert(rows([PACKED[1:]], 9)),
    "stream": lambda one: one.insert(iter(rows([PACKED[1:]], 9).to_batches())),
    "merge": lambda one: (
        one.merge_insert("i").when_not_matched_insert_all().execute(rows([PACKED[1:]], 9))
    ),
    "fragments": lambda one: commit(one, write_fragments(rows([PACKED[1:]], 9), one)),
    "fragment": lambda one: commit(one, [LanceFragment.create(one, rows([PACKED[1:]], 9))]),
    "tasks": lambda one: by_tasks(one, rows([PACKED[1:]], 9, metadata=None)),
}


def commit(one: pilum.LanceDataset, fragments: Any) -> None:
    append = pilum.LanceOperation.Append(fragments)
    pilum.LanceDataset.commit(one.uri, append, read_version=one.version)


def by_tasks(one: pilum.LanceDataset, table: pa.Table) -> None:
    job = start_job(one.uri, table.schema, "append")
    commit_parts(job, [write_part(job, table.to_batches(), partition=0)])


@pytest.mark.parametrize("name", CHANGES)
def test_every_way_of_adding_rows(name: str, uri: str) -> None:
    before = objects(uri)
    CHANGES[name](pilum.dataset(uri))
    assert read(uri) == {**dict(enumerate(VALUES)), 9: PACKED[1:]}
    new = objects(uri).keys() - before.keys()
    assert [path.partition("/")[0] for path in new] == ["_blobs"]
    assert descriptors(uri)[9]["kind"] == 4
    assert flags(uri)[0] & Feature.MANAGED_BLOBS


def test_rows_that_change_keep_their_payloads(uri: str) -> None:
    pilum.dataset(uri).update({"i": "i + 100"}, where="i < 4")
    pilum.dataset(uri).delete("i = 5")
    expected = {100: INLINE, 101: PACKED, 102: None, 103: DEDICATED, 4: b""}
    assert read(uri) == expected
    new = rows([DEDICATED[1:]], 101)
    pilum.dataset(uri).merge_insert("i").when_matched_update_all().execute(new)
    pilum.dataset(uri).add_columns({"j": "i * 2"})
    assert read(uri) == {**expected, 101: DEDICATED[1:]}
    assert not pilum.dataset(uri).verify(deep=True).faults


def test_a_compaction_copies_no_payload(uri: str) -> None:
    path = descriptors(uri)[1]["blob_uri"]
    pilum.write_dataset(references(6, (path, 6, 6)), uri, mode="append")
    dataset = pilum.dataset(uri)
    dataset.delete("i = 3")
    before = objects(uri)
    assert dataset.optimize.compact_files().fragments_added == 1
    assert objects(uri) == before
    expected = {**dict(enumerate(VALUES)), 6: b"packed"}
    del expected[3]
    assert read(uri) == expected
    assert read(uri, version=1) == dict(enumerate(VALUES))


def test_a_compaction_adopts_sidecars(tmp_path: Path) -> None:
    plain = rows(VALUES, metadata=None)
    dataset = pilum.write_dataset(
        plain, tmp_path / "t", data_storage_version="2.2", max_rows_per_file=2
    )
    dataset.update_schema_metadata(MANAGED)
    before = objects(dataset.uri)
    assert all(path.startswith("data/") for path in before)
    dataset.optimize.compact_files()
    assert objects(dataset.uri) == before
    found = descriptors(dataset.uri)
    assert {one["blob_uri"] for one in found.values() if one["kind"] == 4} == before.keys()
    assert read(dataset.uri) == dict(enumerate(VALUES))


def test_objects_in_base_paths(tmp_path: Path) -> None:
    for name, is_root in (("root", True), ("plain", False)):
        base = pilum.DatasetBasePath(str(tmp_path / name), name, is_dataset_root=is_root)
        dataset = pilum.write_dataset(
            rows(VALUES),
            tmp_path / f"t-{name}",
            initial_bases=[base],
            target_bases=[name],
            data_storage_version="2.2",
        )
        uri = dataset.uri
        assert objects(uri) == {}
        assert len(objects(base.path)) == 2
        own = {one["kind"]: one["blob_id"] for one in descriptors(uri).values()}
        assert own == {0: 0, 5: 1}
        (Path(uri) / "digits.blob").write_bytes(b"0123456789")
        (Path(base.path) / "digits.blob").write_bytes(b"abcdefghij")
        place = ("digits.blob", 1, 2)
        pilum.write_dataset(references(6, place), uri, mode="append")
        pilum.write_dataset(references(7, place, base_id=1), uri, mode="append")
        pilum.write_dataset(references(8, place), uri, mode="append", target_bases=[name])
        expected = {**dict(enumerate(VALUES)), 6: b"12", 7: b"bc", 8: b"bc"}
        assert read(uri) == expected
        pilum.dataset(uri).optimize.compact_files()
        assert read(uri) == expected
        with pytest.raises(UnsupportedFeatureError, match="which a deep clone does not have"):
            pilum.dataset(uri).deep_clone(tmp_path / "clone", pilum.dataset(uri).version)
        assert not (tmp_path / "clone" / "data").exists()


def test_clones_and_branches(uri: str, tmp_path: Path) -> None:
    expected = dict(enumerate(VALUES))
    deep = pilum.dataset(uri).deep_clone(tmp_path / "deep", 1)
    assert objects(deep.uri) == objects(uri)
    shallow = pilum.dataset(uri).shallow_clone(tmp_path / "shallow", 1)
    again = shallow.deep_clone(tmp_path / "again", 1)
    assert objects(again.uri) == objects(uri)
    branch = pilum.dataset(uri).create_branch("dev")
    for other in (shallow, branch):
        other.insert(rows([PACKED], 6))
        expected_there = {**expected, 6: PACKED}
        assert read(other.uri) == expected_there
        pilum.dataset(other.uri).optimize.compact_files()
        assert read(other.uri) == expected_there
        assert len(objects(other.uri)) == 1
    assert not pilum.dataset(uri).verify(deep=True).faults
    pilum.dataset(uri).branches.delete("dev")
    assert list(Path(uri, "tree").rglob("*.blob")) == []
    for path in objects(uri):
        Path(uri, path).unlink()
    assert read(deep.uri) == read(again.uri) == expected


def test_columns_of_blobs_are_not_added_to_rows(uri: str) -> None:
    new = pa.table([pilum.blob_array(VALUES)], schema=pa.schema([pilum.blob_field("c")]))
    with pytest.raises(UnsupportedTypeError, match="columns of blobs cannot be added"):
        pilum.dataset(uri).add_columns(new.to_reader())
    with pytest.raises(ColumnNotFoundError):
        pilum.dataset(uri).to_table(columns=["c"])
