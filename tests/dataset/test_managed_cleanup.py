"""Cleanup of tables with managed blobs: an object stays as long as anything may refer to it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.blob import BlobDescriptorArrayBuilder
from pilum.dataset.cleanup import CleanupStats
from pilum.errors import CorruptFileError
from pilum.table.upkeep import cleanup

MANAGED = {"lance.blob.managed": "true"}
BLOB = pilum.blob_field("b", inline_size_threshold=4, pack_file_size_threshold=1)
SCHEMA = pa.schema([pa.field("i", pa.int64()), BLOB], metadata=MANAGED)
"""The schema of tables in which every payload has an object of its own."""

NOW = timedelta(0)


def payload(number: int) -> bytes:
    return b"payload %d" % number


def rows(*numbers: int, schema: pa.Schema = SCHEMA) -> pa.Table:
    blobs = pilum.blob_array([payload(number) for number in numbers])
    return pa.table([pa.array(numbers, pa.int64()), blobs], schema=schema)


def reference(number: int, path: str, **more: Any) -> list[pa.RecordBatch]:
    """A row that refers to the payload of another one, of the same length."""
    builder = BlobDescriptorArrayBuilder("b")
    builder.append_managed(path, 0, len(payload(0)), **more)
    fields = pa.schema([pa.field("i", pa.int64()), builder.field])
    return [pa.record_batch([pa.array([number], pa.int64()), builder.finish()], schema=fields)]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of two fragments, with the rows 0 to 2 and the row 3."""
    where = str(tmp_path / "t")
    pilum.write_dataset(rows(0, 1, 2), where, data_storage_version="2.2")
    pilum.dataset(where).insert(rows(3))
    return where


def objects(uri: str) -> set[bytes]:
    """The payloads that are there."""
    return {path.read_bytes() for path in Path(uri).rglob("*.blob")}


def payloads(*numbers: int) -> set[bytes]:
    return set(map(payload, numbers))


def path_of(dataset: pilum.LanceDataset, number: int) -> str:
    """The path of the object of a row."""
    [row] = dataset.to_table(filter=f"i = {number}").to_pylist()
    return str(row["b"]["blob_uri"])


def read(dataset: pilum.LanceDataset) -> dict[int, bytes]:
    table = dataset.to_table(blob_handling="all_binary")
    return dict(zip(table["i"].to_pylist(), table["b"].to_pylist(), strict=True))


def clean(uri: str, **more: Any) -> CleanupStats:
    keywords = {"older_than": NOW, "error_if_tagged_old_versions": False, **more}
    stats: CleanupStats = pilum.dataset(uri).cleanup_old_versions(**keywords)
    return stats


def make_old(path: Path) -> None:
    stamp = time.time() - 8 * 24 * 3600
    os.utime(path, (stamp, stamp))


def test_objects_go_with_the_last_data_file_that_refers_to_them(uri: str) -> None:
    dataset = pilum.dataset(uri)
    dataset.delete("i = 1")
    assert clean(uri).data_files_removed == 0  # the rows are still in a data file
    assert objects(uri) == payloads(0, 1, 2, 3)
    dataset = pilum.dataset(uri)
    dataset.optimize.compact_files()
    assert clean(uri, older_than=timedelta(days=1)) == CleanupStats()
    removed = clean(uri)
    assert removed.data_files_removed == 3  # two data files and an object
    assert objects(uri) == payloads(0, 2, 3)
    assert read(pilum.dataset(uri)) == {number: payload(number) for number in (0, 2, 3)}


def test_what_would_go_is_reported(uri: str) -> None:
    pilum.write_dataset(rows(7), uri, mode="overwrite")
    plan = pilum.dataset(uri).explain_cleanup_old_versions(older_than=NOW)
    assert plan.stats.data_files_removed == 6  # two data files, four objects
    assert objects(uri) == payloads(0, 1, 2, 3, 7)
    assert clean(uri).data_files_removed == 6
    assert objects(uri) == payloads(7)


def test_shared_objects_stay(uri: str) -> None:
    dataset = pilum.dataset(uri)
    path = path_of(dataset, 1)
    pilum.write_dataset(rows(7), uri, mode="overwrite")
    pilum.dataset(uri).insert(reference(8, path))
    clean(uri, delete_unverified=True)
    assert objects(uri) == payloads(1, 7)
    assert read(pilum.dataset(uri)) == {7: payload(7), 8: payload(1)}


def test_kept_versions_and_tags_keep_objects(uri: str) -> None:
    dataset = pilum.dataset(uri)
    dataset.tags.create("kept", 1)
    dataset = pilum.write_dataset(rows(7), uri, mode="overwrite")
    dataset.insert(rows(8))
    clean(uri, older_than=None, retain_versions=2, delete_unverified=True)
    assert objects(uri) == payloads(0, 1, 2, 7, 8)
    assert read(pilum.dataset(uri, version="kept")) == {n: payload(n) for n in range(3)}
    assert read(pilum.dataset(uri, version=3)) == {7: payload(7)}


def test_branches_keep_objects(uri: str) -> None:
    dataset = pilum.dataset(uri)
    branch = dataset.create_branch("dev", 1)
    later = path_of(dataset, 3)  # of a version that the branch does not have
    [base] = branch.snapshot.manifest.base_paths
    branch.insert(reference(9, later, base_id=base.id))
    branch = dataset.checkout_version(("dev", None))
    branch.optimize.compact_files()
    pilum.write_dataset(rows(7), uri, mode="overwrite")
    clean(uri, delete_unverified=True)
    expected = {**{number: payload(number) for number in range(3)}, 9: payload(3)}
    assert read(pilum.dataset(uri).checkout_version(("dev", None))) == expected
    assert not pilum.dataset(uri).verify(deep=True).faults
    # A cleanup of the branch removes only what is its own.
    branch = pilum.dataset(uri).checkout_version(("dev", None))
    branch.insert(rows(10))
    branch = pilum.dataset(uri).checkout_version(("dev", None))
    branch.delete("i = 10")
    branch.cleanup_old_versions(older_than=NOW, delete_unverified=True)
    assert read(pilum.dataset(uri).checkout_version(("dev", None))) == expected


def test_clones_leave_the_objects_of_their_source(uri: str, tmp_path: Path) -> None:
    clone = pilum.dataset(uri).shallow_clone(tmp_path / "clone", 2)
    clone.insert(rows(9))
    pilum.dataset(clone.uri).optimize.compact_files()
    pilum.dataset(clone.uri).delete("i < 3")
    pilum.dataset(clone.uri).optimize.compact_files()
    clean(clone.uri, delete_unverified=True)
    assert objects(clone.uri) == payloads(9)
    assert objects(uri) == payloads(0, 1, 2, 3)
    assert read(pilum.dataset(clone.uri)) == {3: payload(3), 9: payload(9)}
    # As with data files, a tag of the source protects what clones refer to.
    pilum.dataset(uri).tags.create("cloned", 2)
    pilum.write_dataset(rows(7), uri, mode="overwrite")
    clean(uri, delete_unverified=True)
    assert read(pilum.dataset(clone.uri)) == {3: payload(3), 9: payload(9)}


def test_adopted_sidecars_outlive_their_data_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    plain = SCHEMA.remove_metadata()
    pilum.write_dataset(rows(0, 1, schema=plain), uri, data_storage_version="2.2")
    pilum.dataset(uri).insert(rows(2, schema=plain))
    pilum.dataset(uri).update_schema_metadata(MANAGED)
    pilum.dataset(uri).optimize.compact_files()
    clean(uri, delete_unverified=True)
    assert len(list(Path(uri, "data").glob("*.lance"))) == 1
    assert len(list(Path(uri, "data").glob("*/*.blob"))) == 3
    assert read(pilum.dataset(uri)) == {number: payload(number) for number in range(3)}
    pilum.dataset(uri).delete("i = 1")
    pilum.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    clean(uri)
    assert objects(uri) == payloads(0, 2)
    assert read(pilum.dataset(uri)) == {0: payload(0), 2: payload(2)}


def test_automatic_cleanups_read_descriptors_when_a_data_file_goes(uri: str) -> None:
    """Until then all objects stay, also one that no version ever referred to."""
    dataset = pilum.dataset(uri)
    stray = Path(uri, "_blobs", "stray.blob")
    stray.write_bytes(b"stray")
    make_old(stray)
    dataset.delete("i = 1")
    dataset.optimize.enable_auto_cleanup({"interval": 1, "older_than_seconds": 0})
    dataset.insert(rows(4))
    dataset.insert(rows(5))
    assert len(dataset.versions()) == 2
    assert objects(uri) == payloads(0, 1, 2, 3, 4, 5) | {b"stray"}
    dataset.optimize.compact_files()
    dataset.insert(rows(6))
    dataset.insert(rows(7))
    assert objects(uri) == payloads(0, 2, 3, 4, 5, 6, 7)
    assert read(pilum.dataset(uri)) == {n: payload(n) for n in (0, 2, 3, 4, 5, 6, 7)}


def test_references_by_other_names_of_a_folder_count(tmp_path: Path) -> None:
    """A base path may be the table itself, or a folder above or below it."""
    uri = str(tmp_path / "t")
    bases = [
        pilum.DatasetBasePath(str(tmp_path), "above", is_dataset_root=False),
        pilum.DatasetBasePath(f"{uri}/_blobs", "below", is_dataset_root=False),
        pilum.DatasetBasePath(uri, "same", is_dataset_root=True),
    ]
    pilum.write_dataset(rows(0, 1, 2, 3), uri, initial_bases=bases, data_storage_version="2.2")
    dataset = pilum.dataset(uri)
    paths = [path_of(dataset, number) for number in range(3)]
    ids = {base.name: base.id for base in dataset.snapshot.manifest.base_paths}
    pilum.write_dataset(rows(7), uri, mode="overwrite")
    places = {
        "above": f"t/{paths[0]}",
        "below": paths[1].removeprefix("_blobs/"),
        "same": paths[2],
    }
    for number, (name, path) in enumerate(places.items()):
        pilum.dataset(uri).insert(reference(number, path, base_id=ids[name]))
    clean(uri, delete_unverified=True)
    expected = {**{number: payload(number) for number in range(3)}, 7: payload(7)}
    assert read(pilum.dataset(uri)) == expected
    assert objects(uri) == payloads(0, 1, 2, 7)


def test_unused_objects_go_by_their_age(uri: str) -> None:
    folder = Path(uri, "_blobs")
    young, old, foreign = folder / "young.blob", folder / "old.blob", folder / "notes.txt"
    temporary, nested = folder / ".tmp-x", folder / "mine" / "old.blob"
    nested.parent.mkdir()
    for path in (young, old, foreign, temporary, nested):
        path.write_bytes(b"12345")
    for path in (old, foreign, temporary, nested):
        make_old(path)
    for path in folder.iterdir():  # those that are in use are as old
        if path != young:
            make_old(path)
    assert clean(uri, older_than=None).bytes_removed == 10
    assert all(path.exists() for path in (young, foreign, nested))
    assert not any(path.exists() for path in (old, temporary))
    orphans = [fault.path for fault in pilum.dataset(uri).verify().faults]
    assert orphans == ["_blobs/young.blob"]
    assert clean(uri, older_than=None, delete_unverified=True).bytes_removed == 5
    assert read(pilum.dataset(uri)) == {number: payload(number) for number in range(4)}


def test_a_killed_writer_leaves_only_what_cleanup_removes(uri: str) -> None:
    program = f"""
import os, sys
import pilum
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_managed_cleanup import SCHEMA, rows

def batches():
    yield from rows(7, 8).to_batches()
    os.kill(os.getpid(), 9)

pilum.write_dataset(batches(), {uri!r}, SCHEMA, mode="append", max_rows_per_file=1)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    assert objects(uri) > payloads(0, 1, 2, 3)
    assert pilum.dataset(uri).version == 2
    assert read(pilum.dataset(uri)) == {number: payload(number) for number in range(4)}
    clean(uri, older_than=None)  # the writer may still be at work
    assert objects(uri) >= payloads(7)
    for path in Path(uri).rglob("*"):
        make_old(path)
    clean(uri, older_than=None)
    assert objects(uri) == payloads(0, 1, 2, 3)
    assert read(pilum.dataset(uri)) == {number: payload(number) for number in range(4)}


def late(monkeypatch: pytest.MonkeyPatch, action: Callable[[], Any]) -> None:
    """Lets something happen right after the plan was made."""
    run = cleanup.run_cleanup

    def after(*arguments: Any, **more: Any) -> Any:
        action()
        return run(*arguments, **more)

    monkeypatch.setattr(cleanup, "run_cleanup", after)


def test_concurrent_commits_keep_objects(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = pilum.dataset(uri)
    path = path_of(old, 1)
    pilum.write_dataset(rows(7), uri, mode="overwrite")
    late(monkeypatch, lambda: pilum.dataset(uri).insert(reference(8, path)))
    clean(uri, delete_unverified=True)
    assert read(pilum.dataset(uri)) == {7: payload(7), 8: payload(1)}
    assert objects(uri) == payloads(1, 7)


def test_a_restored_version_keeps_its_objects(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = pilum.dataset(uri)
    pilum.write_dataset(rows(7), uri, mode="overwrite")
    late(monkeypatch, old.restore)
    clean(uri, delete_unverified=True)
    assert read(pilum.dataset(uri)) == {number: payload(number) for number in range(4)}


def test_nothing_goes_while_a_kept_data_file_cannot_be_read(uri: str) -> None:
    [file] = pilum.dataset(uri).get_fragments()[1].data_files()
    path = Path(uri, "data", file.path)
    good = path.read_bytes()
    pilum.dataset(uri).delete("i = 3")
    before = objects(uri)
    path.write_bytes(good[:-20])
    with pytest.raises(CorruptFileError):
        clean(uri, older_than=None, retain_versions=2, delete_unverified=True)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        clean(uri, older_than=None, retain_versions=2, delete_unverified=True)
    assert objects(uri) == before
    # A damaged file that goes proves nothing: what it refers to goes by its age.
    path.write_bytes(good[:-20])
    pilum.write_dataset(rows(7), uri, mode="overwrite")
    clean(uri)
    assert objects(uri) == payloads(3, 7)
    for one in Path(uri, "_blobs").iterdir():
        make_old(one)
    clean(uri)
    assert objects(uri) == payloads(7)


@pytest.mark.seeds(2)
def test_whatever_happened_no_version_loses_a_payload(tmp_path: Path, seed: int) -> None:
    """Random changes and cleanups: versions read as before, and no unused object is left."""
    uri, draw = str(tmp_path / "t"), random.Random(seed)
    pilum.write_dataset(rows(0), uri, data_storage_version="2.2")
    known: dict[tuple[str | None, int], dict[int, bytes]] = {}
    lines: list[str | None] = [None]
    number = 1

    def of_line(name: str | None) -> pilum.LanceDataset:
        return pilum.dataset(uri).checkout_version((name, None))

    def refer(one: pilum.LanceDataset) -> None:
        used = [row for row in one.to_table().to_pylist() if row["b"]["kind"] == 4]
        in_own = [row for row in used if Path(one.uri, row["b"]["blob_uri"]).exists()]
        if in_own:
            one.insert(reference(number, draw.choice(in_own)["b"]["blob_uri"]))

    def begin_branch(one: pilum.LanceDataset) -> None:
        if len(lines) < 3:
            lines.append(f"b{number}")
            one.create_branch(f"b{number}")

    def tag(one: pilum.LanceDataset) -> None:
        if one.uri == uri:
            one.tags.create(f"t{number}", one.version)

    def clean_up(one: pilum.LanceDataset, retained: int) -> None:
        one.cleanup_old_versions(
            older_than=None,
            retain_versions=retained,
            delete_unverified=True,
            error_if_tagged_old_versions=False,
        )

    changes: list[Callable[[pilum.LanceDataset], Any]] = [
        lambda one: one.insert(rows(number, number + 1)),
        lambda one: one.insert(rows(number)),
        refer,
        lambda one: one.delete(f"i % 3 = {draw.randrange(3)}"),
        lambda one: one.update({"i": f"i + {number}"}, where=f"i % 4 = {draw.randrange(4)}"),
        lambda one: one.optimize.compact_files(materialize_deletions_threshold=0.0),
        lambda one: pilum.write_dataset(rows(number), one, mode="overwrite"),
        tag,
        begin_branch,
        lambda one: clean_up(one, draw.randrange(1, 4)),
    ]
    for _ in range(20):
        number += 10
        name = draw.choice(lines)
        draw.choice(changes)(of_line(name))
        for line in lines:
            newest = of_line(line)
            known.setdefault((line, newest.version), read(newest))
            for version in newest.versions():
                place = (line, version["version"])
                assert place not in known or read(newest.checkout_version(place)) == known[place]
    for line in reversed(lines):
        clean_up(of_line(line), 1)
        assert read(of_line(line)) == known[line, of_line(line).version]
    assert not pilum.dataset(uri).verify(deep=True).faults
