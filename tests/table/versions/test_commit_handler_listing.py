"""Which version is the newest, and what was committed since one, from a listing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from servers.moto import aws_options
from servers.versitygw import versitygw_server

import pilum
from pilum.errors import CorruptFileError
from pilum.storage.base import Store
from pilum.storage.local import LocalStore
from pilum.storage.open import open_store
from pilum.table.model.manifest_file import encode_manifest_file
from pilum.table.model.names import NamingScheme
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.commit_handler import ConditionalPut

listed_manifests, newest_listed = ConditionalPut().names, ConditionalPut().latest
ROWS = pa.table({"x": [1, 2, 3]})

pytest.importorskip("obstore", reason="needs obstore: pip install 'pilum[cloud]'")


@pytest.fixture(params=["in order", "in any order"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "in order":
        return open_store(f"memory://{uuid4().hex}")
    return LocalStore(str(tmp_path), sync=False)


def have(store: Store, *versions: int, scheme: NamingScheme = NamingScheme.V2) -> None:
    for version in versions:
        store.put(scheme.manifest_path(version), b"")


def test_the_newest_is_found_by_its_name(store: Store) -> None:
    assert newest_listed(store) is None
    store.put("_versions/latest_version_hint.json", b"")
    store.put("_versions/d9223372036854775816.manifest", b"")
    assert newest_listed(store) is None
    have(store, 2, 10, 9)
    newest = newest_listed(store)
    assert newest is not None
    assert (newest.version, newest.scheme) == (10, NamingScheme.V2)


def test_old_names_are_all_looked_at(store: Store) -> None:
    have(store, 2, 10, 9, scheme=NamingScheme.V1)
    newest = newest_listed(store)
    assert newest is not None
    assert (newest.version, newest.scheme) == (10, NamingScheme.V1)
    assert [name.version for name in listed_manifests(store, since=10)] == [2, 9, 10]
    have(store, 11)  # as while names are being migrated
    assert [name.version for name in listed_manifests(store)] == [2, 9, 10, 11]
    have(store, 1)
    with pytest.raises(CorruptFileError, match="two naming schemes"):
        listed_manifests(store)


def test_what_came_since_a_version_is_at_the_front() -> None:
    store = open_store(f"memory://{uuid4().hex}")
    have(store, *range(1, 8))
    assert [name.version for name in listed_manifests(store, since=5)] == [5, 6, 7]
    assert [name.version for name in listed_manifests(store, since=8)] == [7]
    assert len(listed_manifests(store)) == 7


def test_ten_thousand_versions_are_no_reason_to_list_them(tmp_path: Path) -> None:
    """S2.8: to open the newest version takes one page of a listing, and so does a commit."""
    versions = tmp_path / "served" / "bucket" / "table" / "_versions"
    versions.mkdir(parents=True)
    pilum.write_dataset(ROWS, versions.parent)
    manifest = Snapshot.latest(LocalStore(str(versions.parent))).manifest
    for version in range(2, 10_000):  # of old versions nobody reads more than the name
        (versions / os.path.basename(NamingScheme.V2.manifest_path(version))).touch()
    newest = versions / os.path.basename(NamingScheme.V2.manifest_path(10_000))
    newest.write_bytes(encode_manifest_file(replace(manifest, version=10_000), b""))
    log = tmp_path / "log"
    with versitygw_server(tmp_path / "served", log) as server:
        uri, options = "s3://bucket/table", aws_options(server.url)
        dataset = pilum.dataset(uri, storage_options=options)
        assert dataset.version == 10_000
        assert log.read_text().count("list-type=2") == 1
        dataset.insert(ROWS)
        assert dataset.version == 10_001
        assert log.read_text().count("list-type=2") == 2
