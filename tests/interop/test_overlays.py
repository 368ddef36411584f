"""Overlays: what one library writes, the other reads, through scans, takes, filters and indices."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
import pilum.file
import pilum.fragment
import pilum.vector
from pilum.errors import (
    CommitConflictError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

LIBRARIES = pytest.mark.parametrize("library", [pilum, lance], ids=["pilum", "lance"])
_ROWS = 40
_ENABLED = "LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES"


@pytest.fixture(autouse=True, scope="module")
def enabled() -> Iterator[None]:
    """Let the reference implementation read and write tables with overlays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(_ENABLED, "1")
        yield


def table(start: int = 0) -> pa.Table:
    numbers = range(start, start + _ROWS)
    structs = [None if n % 7 == 3 else {"a": n, "b": {"c": f"c{n}"}} for n in numbers]
    return pa.table(
        {
            "i": pa.array(numbers, pa.int64()),
            "s": pa.array(structs),
            "l": pa.array([None if n % 5 == 2 else [n] * (n % 4) for n in numbers]),
            "t": pa.array([None if n % 3 == 1 else f"text {n}" for n in numbers]),
            "v": pa.array([[float(n)] * 4 for n in numbers], pa.list_(pa.float32(), 4)),
        }
    )


NUMBER, S_A, S_B_C, ITEM, TEXT, VECTOR = 0, 2, 4, 6, 7, 8
"""The ids of the leaves."""


def add(
    library: Any, dataset: Any, values: pa.Table, fields: list[int], offsets: Any, fragment: int = 0
) -> Any:
    """Commit an overlay; the name of its file is the number of the version."""
    name = f"overlay-{dataset.version}-{fragment}.lance"
    with library.file.LanceFileWriter(f"{dataset.uri}/data/{name}", values.schema) as writer:
        writer.write_batch(values)
    file = library.fragment.DataFile(name, fields, list(range(len(fields))), 2, 2)
    operation = library.LanceOperation
    overlay = operation.DataOverlayFile(file, offsets)
    change = operation.DataOverlay([operation.DataOverlayGroup(fragment, [overlay])])
    return library.LanceDataset.commit(dataset.uri, change, read_version=dataset.version)


def new(library: Any, path: Path, **keywords: Any) -> Any:
    return library.write_dataset(table(), path, data_storage_version="2.2", **keywords)


def overlaid(library: Any, path: Path, **keywords: Any) -> Any:
    """Several overlays, some over others, of all kinds of fields."""
    dataset = new(library, path, **keywords)
    dataset = add(library, dataset, pa.table({"i": [500, 501, 502]}), [NUMBER], [9, 1, 30])
    members = pa.table({"s": pa.array([{"a": 900}, None, {"a": None}])})
    dataset = add(library, dataset, members, [S_A], [2, 3, 4])
    # The reference takes the member of row 3 for not null in filters, although the struct is null.
    whole = pa.table({"s": pa.array([{"a": 710, "b": {"c": "new"}}, {"a": 911, "b": None}])})
    dataset = add(library, dataset, whole, [S_A, S_B_C], [3, 4])
    lists = pa.table({"l": pa.array([[7, 7, 7], None, []], pa.list_(pa.int64()))})
    dataset = add(library, dataset, lists, [ITEM], [0, 2, 39])
    both = pa.table({"i": [600, None], "t": ["changed", None]})
    dataset = add(library, dataset, both, [NUMBER, TEXT], [[1, 20], [5, 6]])
    vectors = pa.table({"v": pa.array([[1.5] * 4, [2.5] * 4], pa.list_(pa.float32(), 4))})
    return add(library, dataset, vectors, [VECTOR], [10, 11])


def same_at(uri: str, version: int | None = None) -> pilum.LanceDataset:
    """Return a version, after comparing how both libraries read it."""
    ours, theirs = pilum.dataset(uri, version=version), lance.dataset(uri, version=version)
    assert ours.to_table().to_pydict() == theirs.to_table().to_pydict()
    places = [39, 1, 1, 3, 4, 20, 0]
    assert ours.take(places).to_pydict() == theirs.take(places).to_pydict()
    for where in ("i > 400", "t = 'changed'", "s.a > 800", "i IS NULL", "i = 9"):
        found, expected = (one.to_table(filter=where).to_pydict() for one in (ours, theirs))
        assert found == expected, where
        assert ours.count_rows(where) == len(expected["i"])
    return ours


@LIBRARIES
@pytest.mark.parametrize("stable", [False, True])
def test_both_read_the_same_values(library: Any, stable: bool, tmp_path: Path) -> None:
    newest = overlaid(library, tmp_path / "t", enable_stable_row_ids=stable).version
    for version in range(1, newest + 1):
        dataset = same_at(str(tmp_path / "t"), version)
    expected: list[int | None] = list(range(_ROWS))
    expected[1], expected[9], expected[30], expected[20] = 600, 501, 502, None
    assert dataset.to_table(columns=["i"])["i"].to_pylist() == expected
    overlays: list[Any] = dataset.get_fragments()[0].metadata.overlays
    assert [one.committed_version for one in overlays] == list(range(2, newest + 1))
    assert list(overlays[0].offsets) == [1, 9, 30]
    assert [list(one) for one in overlays[4].offsets] == [[1, 20], [5, 6]]
    stored = dataset.get_fragments()[0].metadata.to_json()
    again = pilum.fragment.FragmentMetadata.from_json(json.dumps(stored))
    assert again.to_json() == stored
    assert (
        lance.FragmentMetadata.from_json(json.dumps(stored)).to_json()["overlays"]
        == (lance.dataset(dataset.uri).get_fragments()[0].metadata.to_json()["overlays"])
    )
    assert not (found := dataset.verify(deep=True)).damaged + found.missing, found


@LIBRARIES
def test_random_overlays_against_a_model(library: Any, tmp_path: Path) -> None:
    numbers = np.random.default_rng(5)
    dataset, model = new(library, tmp_path / "t", max_rows_per_file=20), np.arange(_ROWS)
    for step in range(6):
        fragment = int(numbers.integers(2))
        rows = numbers.choice(20, int(numbers.integers(1, 20)), replace=False)
        values = numbers.integers(1000, 2000, len(rows))
        dataset = add(library, dataset, pa.table({"i": values}), [NUMBER], rows.tolist(), fragment)
        model[20 * fragment + np.sort(rows)] = values
        if step == 3:
            dataset.delete("i < 6")
            dataset = library.dataset(dataset.uri)
    found = same_at(dataset.uri).to_table(columns=["i"], with_row_address=True)
    addresses = found["_rowaddr"].to_numpy().astype(np.int64)
    assert len(addresses) > _ROWS // 2
    assert (found["i"].to_numpy() == model[(addresses >> 32) * 20 + (addresses & 0xFFFF)]).all()


@LIBRARIES
def test_changes_between_versions_include_overlays(library: Any, tmp_path: Path) -> None:
    dataset = new(library, tmp_path / "t", enable_stable_row_ids=True, max_rows_per_file=20)
    dataset = add(library, dataset, pa.table({"i": [500, 501]}), [NUMBER], [3, 5], fragment=1)
    dataset = add(library, dataset, pa.table({"t": ["x", "y"]}), [TEXT], [[5, 7]], fragment=1)
    for begin, expected in ((1, [500, 501, 27]), (2, [501, 27])):
        deltas = [one.dataset(dataset.uri).delta(compared_against=begin) for one in (pilum, lance)]
        found = [one.get_updated_rows().read_all().to_pydict() for one in deltas]
        assert found[0] == found[1]
        assert found[0]["i"] == expected
        assert not any(one.get_inserted_rows().read_all().num_rows for one in deltas)
        assert not any(one.get_deleted_row_ids().read_all().num_rows for one in deltas)


def covered(dataset: pilum.LanceDataset) -> list[int]:
    return list(dataset.list_indices()[0]["fragment_ids"] or ())


@LIBRARIES
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_values_that_are_newer_than_an_index(library: Any, kind: str, tmp_path: Path) -> None:
    dataset = new(library, tmp_path / "t", max_rows_per_file=20)
    dataset.create_scalar_index("i", kind)
    dataset = library.dataset(dataset.uri)
    dataset = add(library, dataset, pa.table({"i": [500, 501]}), [NUMBER], [1, 9])
    dataset = add(library, dataset, pa.table({"t": ["x"]}), [TEXT], [3], fragment=1)
    found = same_at(dataset.uri)
    assert [found.count_rows(f"i = {one}") for one in (1, 500, 2, 23)] == [0, 1, 1, 1]
    # An overlay of another column leaves the index of its fragment valid.
    assert covered(found) == [1]
    found.optimize.optimize_indices()
    again = same_at(dataset.uri)
    assert covered(again) == [0, 1]
    assert [again.count_rows(f"i = {one}") for one in (1, 500, 2)] == [0, 1, 1]
    assert again.optimize.compact_files().fragments_removed == 2
    compacted = same_at(dataset.uri)
    assert not any(one.metadata.overlays for one in compacted.get_fragments())
    assert [compacted.count_rows(f"i = {one}") for one in (1, 500, 2)] == [0, 1, 1]


def require_found(dataset: pilum.LanceDataset) -> None:
    """Compare what searches of texts and vectors find with what the values of the rows say."""
    rows = dataset.to_table(columns=["i", "t", "v"]).to_pylist()
    for where in (None, "i % 2 = 1"):
        among = [row for row in rows if where is None or row["i"] % 2]
        options: dict[str, Any] = {"filter": where, "prefilter": True, "columns": ["i"]}
        for word in ("zebra", "text", "6", "25"):
            found = dataset.to_table(full_text_query=word, limit=99, **options)
            expected = [row["i"] for row in among if word in row["t"].split()]
            assert sorted(found["i"].to_pylist()) == expected
        for place in (6.1, 25.1, 890.0):
            query = {"column": "v", "q": [place] * 4, "k": 3, "nprobes": 2}
            found = dataset.to_table(nearest=query, **options)
            distances = [(abs(row["v"][0] - place), row["i"]) for row in among]
            assert found["i"].to_pylist() == [number for _, number in sorted(distances)[:3]]


@pytest.mark.filterwarnings("ignore:the columns of this search")
@pytest.mark.parametrize(("files", "is_overlay"), [(1, True), (2, True), (2, False)])
def test_searches_leave_out_old_values(is_overlay: bool, files: int, tmp_path: Path) -> None:
    """The index has rows of a fragment that it no longer covers, as their values changed."""
    path = str(tmp_path / "t")
    rows = table().set_column(3, "t", [[f"text {number}" for number in range(_ROWS)]])
    dataset = pilum.write_dataset(rows, path, max_rows_per_file=_ROWS // files)
    dataset.create_scalar_index("t", "INVERTED")
    dataset.create_index("v", "IVF_FLAT", num_partitions=2)
    dataset = pilum.dataset(path)
    changed = pa.array([[910.0] * 4, [900.0] * 4], pa.list_(pa.float32(), 4))
    if is_overlay:
        add(pilum, dataset, pa.table({"t": ["zebra 1", "2"]}), [TEXT], [5, 6])
        add(pilum, pilum.dataset(path), pa.table({"v": changed}), [VECTOR], [5, 6])
    else:
        values = pa.table({"i": [5, 6], "t": ["zebra 1", "2"], "v": changed})
        metadata, fields = dataset.get_fragments()[0].update_columns(values, left_on="i")
        update = pilum.LanceOperation.Update(
            updated_fragments=[metadata], fields_modified=fields, update_mode="rewrite_columns"
        )
        pilum.LanceDataset.commit(path, update, read_version=dataset.version)
    require_found(pilum.dataset(path))
    pilum.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    require_found(pilum.dataset(path))
    pairs = pilum.vector.find_duplicate_pairs(pilum.dataset(path), "v", 4.5).read_all()
    # Adjacent rows are at a distance of 4, but not those that changed.
    assert pairs.num_rows > _ROWS // 2
    assert {5, 6}.isdisjoint(pairs["row_id_a"].to_pylist() + pairs["row_id_b"].to_pylist())
    pilum.dataset(path).optimize.optimize_indices(num_indices_to_merge=2)
    require_found(pilum.dataset(path))


@LIBRARIES
def test_compaction_without_the_index_up_to_date(library: Any, tmp_path: Path) -> None:
    dataset = new(library, tmp_path / "t", max_rows_per_file=20)
    dataset.create_scalar_index("i", "BTREE")
    dataset = add(library, library.dataset(dataset.uri), pa.table({"i": [500]}), [NUMBER], [1])
    ours = pilum.dataset(dataset.uri)
    ours.insert(table(100))
    ours.optimize.compact_files()
    found = same_at(dataset.uri)
    assert [found.count_rows(f"i = {one}") for one in (1, 500, 22, 139)] == [0, 1, 1, 1]


def test_new_values_for_all_rows_replace_overlays(tmp_path: Path) -> None:
    dataset = overlaid(pilum, tmp_path / "t")
    fragment = dataset.get_fragments()[0]
    values = pa.table({"key": [6, 2], "t": ["six", "two"]})
    metadata, fields = fragment.update_columns(values, left_on="i", right_on="key")
    update = pilum.LanceOperation.Update(
        updated_fragments=[metadata], fields_modified=fields, update_mode="rewrite_columns"
    )
    dataset = pilum.LanceDataset.commit(dataset.uri, update, read_version=dataset.version)
    found = same_at(dataset.uri).to_table(columns=["i", "t"])
    assert found["t"].to_pylist()[:7] == ["text 0", None, "two", "text 3", None, "changed", "six"]
    assert found["i"][1].as_py() == 600
    whole = pa.table({"i": pa.array(range(1000, 1000 + _ROWS))})
    with pilum.file.LanceFileWriter(f"{dataset.uri}/data/whole.lance", whole.schema) as writer:
        writer.write_batch(whole)
    file = pilum.fragment.DataFile("whole.lance", [NUMBER], [0], 2, 2)
    group = pilum.LanceOperation.DataReplacementGroup(0, file)
    change = pilum.LanceOperation.DataReplacement([group])
    dataset = pilum.LanceDataset.commit(dataset.uri, change, read_version=dataset.version)
    found = same_at(dataset.uri).to_table(columns=["i"])
    assert found["i"].to_pylist() == whole["i"].to_pylist()
    dataset.drop_columns(["s", "l", "t", "v"])
    assert dataset.get_fragments()[0].metadata.overlays == []
    assert same_columns(dataset)


def test_a_replacement_ends_no_overlay_that_it_does_not_know(tmp_path: Path) -> None:
    before = new(pilum, tmp_path / "t")
    dataset = add(pilum, before, pa.table({"i": [500]}), [NUMBER], [9])
    for name, fields in (("i", [NUMBER]), ("t", [TEXT])):
        with pilum.file.LanceFileWriter(f"{dataset.uri}/data/{name}.lance") as writer:
            writer.write_batch(table(100).select([name]))
        file = pilum.fragment.DataFile(f"{name}.lance", fields, [0], 2, 2)
        group = pilum.LanceOperation.DataReplacementGroup(0, file)
        change = pilum.LanceOperation.DataReplacement([group])
        if name == "i":
            with pytest.raises(CommitConflictError, match="the values of fragment and field"):
                pilum.LanceDataset.commit(dataset.uri, change, read_version=before.version)
        else:
            pilum.LanceDataset.commit(dataset.uri, change, read_version=before.version)
    found = same_at(dataset.uri).to_table(columns=["i", "t"])
    assert found["i"][9].as_py() == 500
    assert found["t"].to_pylist() == table(100)["t"].to_pylist()


@LIBRARIES
def test_a_new_column_has_no_values_of_a_dropped_one(library: Any, tmp_path: Path) -> None:
    dataset = new(library, tmp_path / "t")
    dataset.add_columns({"z": "i + 100"})
    values = pa.table({"i": [500], "z": pa.array([600], pa.int64())})
    [field] = [one.id() for one in lance.dataset(dataset.uri).lance_schema.fields()[-1:]]
    dataset = add(library, library.dataset(dataset.uri), values, [NUMBER, field], [9])
    dataset.drop_columns(["z"])
    library.dataset(dataset.uri).add_columns({"w": "i + 1000"})
    found = same_at(dataset.uri).to_table(columns=["i", "w"]).to_pydict()
    assert found["w"] == [number + 1000 for number in found["i"]]
    assert found["i"][9] == 500


def same_columns(dataset: pilum.LanceDataset) -> bool:
    return bool(dataset.to_table().equals(lance.dataset(dataset.uri).to_table()))


def test_clones_and_cleanups_keep_the_files_of_overlays(tmp_path: Path) -> None:
    dataset = overlaid(pilum, tmp_path / "t")
    expected = dataset.to_table()
    dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert same_at(dataset.uri).to_table().equals(expected)
    assert not (found := dataset.verify(deep=True)).damaged + found.missing, found
    for clone in (dataset.shallow_clone, dataset.deep_clone):
        copy = clone(str(tmp_path / clone.__name__), dataset.version)
        assert same_at(copy.uri).to_table().equals(expected)
    copy.delete("i = 2")
    copy.restore()
    dataset.update({"i": "i + 1"}, where="i = 501")
    dataset.optimize.compact_files()
    dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert not list((tmp_path / "t/data").glob("overlay-*"))


@pytest.mark.parametrize(
    ("fields", "offsets", "error", "text"),
    [
        ([NUMBER], [0, 0], InvalidInputError, "listed twice"),
        ([NUMBER], [-1, 0], InvalidInputError, "not physical rows"),
        ([NUMBER], [0, _ROWS], InvalidInputError, f"row {_ROWS} of {_ROWS}"),
        ([NUMBER], [0], InvalidInputError, "rows: the manifest says 1, the file 2"),
        ([NUMBER], [[0]], InvalidInputError, "rows: expected 1, found 2"),
        ([NUMBER], [[0, 1], [2, 3]], InvalidInputError, "each of the 1 fields"),
        ([99], [0, 1], SchemaMismatchError, "no fields .99"),
        ([TEXT], [0, 1], InvalidInputError, "the manifest says string, the file int64"),
    ],
)
def test_overlays_that_do_not_fit(
    fields: list[int], offsets: Any, error: type[Exception], text: str, tmp_path: Path
) -> None:
    dataset = new(pilum, tmp_path / "t")
    with pytest.raises(error, match=text):
        add(pilum, dataset, pa.table({"i": [1, 2]}), fields, offsets)
    assert pilum.dataset(dataset.uri).version == 1


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_overlays_of_blobs_are_refused_as_the_reference_ignores_them(
    version: str, tmp_path: Path
) -> None:
    kind = pilum.blob_field("b")
    if version == "2.1":
        kind = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    for name, values in (("t", [b"x", b"y"]), ("new", [b"z"])):
        blobs = pilum.blob_array(values) if version == "2.2" else values
        rows = pa.table({"b": blobs}, schema=pa.schema([kind]))
        pilum.write_dataset(rows, tmp_path / name, data_storage_version=version)
    dataset, other = pilum.dataset(tmp_path / "t"), pilum.dataset(tmp_path / "new")
    [file] = other.get_fragments()[0].metadata.files
    shutil.copy(tmp_path / "new/data" / file.path, tmp_path / "t/data")
    for library in (pilum, lance):
        numbers = map(int, version.split("."))
        file = library.fragment.DataFile(file.path, [0], [0], *numbers)
        overlay = library.LanceOperation.DataOverlayFile(file, [1])
        group = library.LanceOperation.DataOverlayGroup(0, [overlay])
        change = library.LanceOperation.DataOverlay([group])
        if library is pilum:
            with pytest.raises(UnsupportedFeatureError, match="ignore; write blobs with update"):
                pilum.LanceDataset.commit(dataset.uri, change, read_version=1)
    found = lance.LanceDataset.commit(dataset.uri, change, read_version=1)
    assert [blob.readall() for blob in found.take_blobs("b", indices=[0, 1])] == [b"x", b"y"]
    with pytest.raises(UnsupportedFeatureError, match=f"the overlay {file.path} has blobs"):
        pilum.dataset(dataset.uri).to_table()


@pytest.mark.parametrize("stable", [False, True])
def test_searches_use_new_values_and_no_old_ones(stable: bool, tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).random((120, 8)).astype("f4")
    rows = pa.table(
        {
            "n": range(120),
            "t": [f"word{n % 7} row{n}" for n in range(120)],
            "v": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 8),
        }
    )
    dataset = pilum.write_dataset(
        rows, tmp_path / "t", max_rows_per_file=60, enable_stable_row_ids=stable
    )
    dataset.create_scalar_index("t", "INVERTED")
    dataset.create_index("v", "IVF_FLAT", num_partitions=2)
    far = np.full(8, 5, "f4")
    new = pa.FixedSizeListArray.from_arrays(np.tile(far, 2), 8)
    dataset = add(pilum, pilum.dataset(dataset.uri), pa.table({"v": new}), [2], [10, 20])
    dataset = add(pilum, dataset, pa.table({"t": ["zebra"]}), [1], [33])
    for library in (pilum, lance):
        found = library.dataset(dataset.uri)
        nearest = {"column": "v", "q": far, "k": 2}
        near = found.scanner(nearest=nearest, disable_scoring_autoprojection=True, columns=["n"])
        assert sorted(near.to_table()["n"].to_pylist()) == [10, 20]
        for word, expected in (("zebra", [33]), ("row33", []), ("row34", [34]), ("row70", [70])):
            hits = found.scanner(
                full_text_query=word, disable_scoring_autoprojection=True, columns=["n"]
            )
            assert hits.to_table()["n"].to_pylist() == expected


def test_searches_after_new_files_for_a_column_of_one_fragment(tmp_path: Path) -> None:
    rows = pa.table({"n": range(120), "t": [f"word{n % 7} row{n}" for n in range(120)]})
    dataset = pilum.write_dataset(rows, tmp_path / "t", max_rows_per_file=60)
    dataset.create_scalar_index("t", "INVERTED")
    for place in (0, 1):
        fragment = pilum.dataset(dataset.uri).get_fragments()[place]
        key = 60 * place + 3
        metadata, fields = fragment.update_columns(pa.table({"n": [key], "t": ["zebra"]}), "n")
        update = pilum.LanceOperation.Update(
            updated_fragments=[metadata], fields_modified=fields, update_mode="rewrite_columns"
        )
        dataset = pilum.LanceDataset.commit(dataset.uri, update, read_version=dataset.version)
        found = dataset.to_table(full_text_query="zebra", columns=["n", "_score"])
        assert sorted(found["n"].to_pylist()) == [3, 63][: place + 1]
