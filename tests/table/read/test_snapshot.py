"""Pinning a version: the newest, a number, a moment; and what is no table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pilum.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    UnsupportedFeatureError,
    UnsupportedVersionError,
    VersionNotFoundError,
)
from pilum.format.schema import Schema
from pilum.storage.local import LocalStore
from pilum.table.model.fragment import DataFile, Fragment, FragmentId
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import Manifest
from pilum.table.model.manifest_file import encode_manifest_file
from pilum.table.model.names import NamingScheme
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.history import list_versions

START = datetime(2024, 1, 1, tzinfo=UTC)


def put(store: LocalStore, manifest: Manifest, scheme: NamingScheme = NamingScheme.V2) -> None:
    store.put(scheme.manifest_path(manifest.version), encode_manifest_file(manifest, b""))


@pytest.fixture
def daily(empty_store: LocalStore, schema: Schema) -> LocalStore:
    """A table that got versions 1, 2 and 3 on the first days of 2024."""
    for version in (1, 2, 3):
        when = START + timedelta(days=version - 1)
        put(empty_store, Manifest(schema, Fragments(), version, int(when.timestamp()) * 10**9))
    return empty_store


def test_the_newest_version(daily: LocalStore) -> None:
    assert Snapshot.latest(daily).manifest.version == 3


def test_what_is_no_version_is_overlooked(daily: LocalStore) -> None:
    daily.put("_versions/.tmp123", b"half")
    daily.put("_versions/latest_version_hint.json", b'{"version":77}')
    daily.put("_versions/d9223372036854775816.manifest", b"detached")
    assert Snapshot.latest(daily).manifest.version == 3


def test_a_version_by_its_number(daily: LocalStore) -> None:
    assert Snapshot.at(daily, 2).manifest.version == 2


@pytest.mark.parametrize("version", [-1, 0, 4, 2**63 + 1, 2**64, 2**70])
def test_a_version_that_is_not_there(daily: LocalStore, version: int) -> None:
    with pytest.raises(VersionNotFoundError, match="it has 1 to 3"):
        Snapshot.at(daily, version)


def test_a_detached_version_by_its_number(daily: LocalStore, schema: Schema) -> None:
    detached = Manifest(schema, Fragments(), version=1 << 63 | 8)
    daily.put(f"_versions/d{detached.version}.manifest", encode_manifest_file(detached, b""))
    assert Snapshot.at(daily, detached.version).manifest == detached


@pytest.mark.checklist("S3.1")
def test_versions_of_the_old_naming_scheme(empty_store: LocalStore, schema: Schema) -> None:
    for version in (9, 10):
        put(empty_store, Manifest(schema, Fragments(), version), NamingScheme.V1)
    assert Snapshot.latest(empty_store).manifest.version == 10
    assert Snapshot.at(empty_store, 9).manifest.version == 9


@pytest.mark.parametrize(("days", "version"), [(0, 1), (0.5, 1), (1, 2), (2, 3), (100, 3)])
def test_a_version_by_its_time(daily: LocalStore, days: float, version: int) -> None:
    moment = START + timedelta(days=days)
    assert Snapshot.as_of(daily, moment).manifest.version == version
    local = moment.astimezone().replace(tzinfo=None)
    assert Snapshot.as_of(daily, local).manifest.version == version


def test_a_time_before_the_first_version(daily: LocalStore) -> None:
    with pytest.raises(VersionNotFoundError, match="no version as old as 2023"):
        Snapshot.as_of(daily, START - timedelta(days=1))


@pytest.mark.parametrize("kind", ["nothing", "empty", "other files", "a file"])
def test_what_is_no_table(tmp_path: Path, kind: str) -> None:
    store = LocalStore(str(tmp_path / "table"))
    if kind == "a file":
        Path(store.root).write_bytes(b"")
    elif kind != "nothing":
        Path(store.root, "_versions").mkdir(parents=True)
    if kind == "other files":
        store.put("_versions/latest_version_hint.json", b'{"version":1}')
        store.put("_latest.manifest.tmp", b"")
    message = "table is a file, and" if kind == "a file" else "no Lance table at"
    for open_it in (Snapshot.latest, list_versions, lambda store: Snapshot.at(store, 1)):
        with pytest.raises(DatasetNotFoundError, match=message):
            open_it(store)
    with pytest.raises(DatasetNotFoundError):
        Snapshot.as_of(store, START)


def test_a_manifest_under_a_false_name_is_damage(daily: LocalStore) -> None:
    daily.put(NamingScheme.V2.manifest_path(4), daily.read(NamingScheme.V2.manifest_path(3)))
    with pytest.raises(CorruptFileError, match="expected version 4, found 3"):
        Snapshot.latest(daily)


@pytest.mark.checklist("S2.2")
def test_a_feature_that_reading_needs_is_refused_by_name(daily: LocalStore, schema: Schema) -> None:
    put(daily, Manifest(schema, Fragments(), 4, reader_flags=512 | 1024 | 1 << 40, writer_flags=1))
    with pytest.raises(
        UnsupportedFeatureError,
        match="version 4: cannot read a table with fragment reuse with stable row ids, "
        "tagged fragment reuse index, unknown feature 1099511627776",
    ):
        Snapshot.latest(daily)
    assert [info.version for info in list_versions(daily)] == [1, 2, 3, 4]
    assert Snapshot.at(daily, 3).num_rows == 0


@pytest.mark.parametrize("flags", [0, 4, 8, 32, 128, 256, 1 << 50])
@pytest.mark.checklist("S2.2")
def test_what_only_a_writer_must_know_does_not_matter_to_readers(
    daily: LocalStore, schema: Schema, flags: int
) -> None:
    put(daily, Manifest(schema, Fragments(), 4, writer_flags=flags))
    assert Snapshot.latest(daily).manifest.writer_flags == flags


def test_deletions_are_seen_without_their_flag(daily: LocalStore, schema: Schema) -> None:
    manifest = Manifest(schema, Fragments(), 4)
    message = manifest.to_proto()
    message.fragments.add(physical_rows=10).deletion_file.num_deleted_rows = 2
    data = message.SerializeToString()
    footer = bytes(8) + bytes.fromhex("00000200") + b"LANC"
    daily.put(NamingScheme.V2.manifest_path(4), len(data).to_bytes(4, "little") + data + footer)
    snapshot = Snapshot.latest(daily)
    assert (snapshot.manifest.reader_flags, snapshot.num_rows) == (1, 8)
    metadata = list_versions(daily)[-1].metadata
    assert (metadata["total_rows"], metadata["total_deletion_file_rows"]) == ("8", "2")


def test_rows_are_counted_where_the_writer_recorded_them(
    daily: LocalStore, schema: Schema, make_fragment: Callable[..., Fragment]
) -> None:
    put(daily, Manifest(schema, Fragments([make_fragment(5), make_fragment(7)]), 4))
    assert Snapshot.latest(daily).num_rows == 12
    old = Fragment(FragmentId(0), (DataFile("x", (), (), 0, 4),), 5)
    put(daily, Manifest(schema, Fragments([old]), 5, writer_version=None))
    with pytest.raises(UnsupportedVersionError, match="not recorded"):
        _ = Snapshot.latest(daily).num_rows
    assert "total_rows" not in list_versions(daily)[-1].metadata


def test_the_data_version_is_asked_only_for_data(daily: LocalStore, schema: Schema) -> None:
    put(daily, replace(Snapshot.latest(daily).manifest, version=4, data_format="2.4"))
    manifest = Snapshot.latest(daily).manifest
    with pytest.raises(UnsupportedVersionError, match=r"version 2\.4; supported: 0\.1"):
        assert manifest.data_version is not None


def test_the_history(daily: LocalStore, schema: Schema) -> None:
    infos = list_versions(daily)
    assert [info.version for info in infos] == [1, 2, 3]
    assert infos[1].timestamp == START + timedelta(days=1)
    assert infos[1].metadata == {
        "total_data_file_rows": "0",
        "total_data_files": "0",
        "total_deletion_file_rows": "0",
        "total_deletion_files": "0",
        "total_files_size": "0",
        "total_fragments": "0",
        "total_rows": "0",
    }


def test_the_history_does_not_need_the_transactions(daily: LocalStore, schema: Schema) -> None:
    data = encode_manifest_file(Manifest(schema, Fragments(), 4), b"\xff" * 20)
    daily.put(NamingScheme.V2.manifest_path(4), data)
    assert [info.version for info in list_versions(daily)] == [1, 2, 3, 4]
