"""The key-value stores themselves, each on a real server or file."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from servers.moto import aws_options, client
from servers.processes import Server

import pilum
from pilum.commit import (
    DynamoEntries,
    ExternalManifests,
    ManifestEntries,
    PostgresEntries,
    SqliteEntries,
)
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.table.model.names import NamingScheme
from pilum.table.versions.commit_handler import handler_of, open_table


@pytest.fixture
def entries(options: dict[str, str], tmp_path: Path) -> ManifestEntries:
    handler = handler_of(open_table(tmp_path, options))
    assert isinstance(handler, ExternalManifests)
    return handler.entries


@pytest.mark.checklist("S2.10")
def test_exactly_one_caller_creates_an_entry(entries: ManifestEntries, tmp_path: Path) -> None:
    one, other = f"{tmp_path}/one", f"{tmp_path}/other"
    assert entries.get(one, 1) is None
    assert entries.get_latest(one) is None
    entries.put_if_exists(one, 1, "_versions/x", 3)
    assert entries.get(one, 1) is None
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: entries.put_if_absent(one, 1, f"_versions/{n}", n), range(8)))
    assert won.count(True) == 1
    assert entries.get(one, 1) == f"_versions/{won.index(True)}"
    assert entries.put_if_absent(one, 10, "_versions/ten", 3)
    assert entries.put_if_absent(other, 11, "_versions/eleven", 3)
    assert entries.get_latest(one) == (10, "_versions/ten")
    entries.put_if_exists(one, 10, "_versions/ten.manifest", 3)
    assert entries.get(one, 10) == "_versions/ten.manifest"
    assert pickle.loads(pickle.dumps(entries)) == entries


@pytest.mark.checklist("S2.8", "S2.10")
def test_writers_at_once_lose_nothing(options: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "t"
    pilum.write_dataset({"a": [0]}, path, storage_options=options)

    def append(number: int) -> None:
        pilum.write_dataset({"a": [number]}, path, mode="append", storage_options=options)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(1, 13)))
    found = pilum.dataset(path, storage_options=options)
    assert sorted(found.to_table()["a"].to_pylist()) == list(range(13))
    assert [version["version"] for version in found.versions()] == list(range(1, 14))
    found.delete("a > 5")
    found.tags.create("few", found.version)
    again = pickle.loads(pickle.dumps(found))
    again.insert({"a": [77]})
    assert handler_of(again.snapshot.store) == handler_of(found.snapshot.store)
    assert found.checkout_version("few").count_rows() == 6
    assert pilum.dataset(path).count_rows() == 7  # everything is under its final name


def test_branches_and_clones_are_decided_about_in_the_same_way(tmp_path: Path) -> None:
    entries = SqliteEntries(f"{tmp_path}/entries.db")
    options = {"manifest_store": f"sqlite://{tmp_path}/entries.db"}
    main = pilum.write_dataset({"a": [1]}, tmp_path / "t", storage_options=options)
    branch = main.create_branch("dev/x")
    branch.insert({"a": [2]})
    main.insert({"a": [3]})
    assert entries.get_latest(f"{tmp_path}/t") == (2, NamingScheme.V2.manifest_path(2))
    assert entries.get_latest(f"{tmp_path}/t/tree/dev/x") == (2, NamingScheme.V2.manifest_path(2))
    again = pilum.dataset(tmp_path / "t", version=("dev/x", None), storage_options=options)
    again.delete("a = 1")
    assert entries.get_latest(f"{tmp_path}/t/tree/dev/x") == (3, NamingScheme.V2.manifest_path(3))
    assert again.to_table()["a"].to_pylist() == [2]
    clone = main.shallow_clone(tmp_path / "clone", 2)
    clone.insert({"a": [4]})
    assert entries.get_latest(f"{tmp_path}/clone") == (3, NamingScheme.V2.manifest_path(3))
    assert clone.to_table()["a"].to_pylist() == [1, 3, 4]


@pytest.mark.parametrize("name", ["manifest_store", "Manifest_Store", "MANIFEST_STORE"])
def test_the_case_of_the_option_does_not_matter(tmp_path: Path, name: str) -> None:
    options = {name: f"sqlite://{tmp_path}/entries.db"}
    pilum.write_dataset({"a": [1]}, tmp_path / "t", storage_options=options)
    entries = SqliteEntries(f"{tmp_path}/entries.db")
    assert entries.get_latest(f"{tmp_path}/t") == (1, NamingScheme.V2.manifest_path(1))


@pytest.mark.parametrize("kind", ["sqlite", "boto3", "psycopg"])
def test_a_server_that_is_gone_is_an_os_error(tmp_path: Path, kind: str) -> None:
    nowhere = {**aws_options("http://x"), "dynamodb_endpoint": "http://127.0.0.1:9"}
    entries: dict[str, ManifestEntries] = {
        "sqlite": SqliteEntries(f"{tmp_path}/no/folder.db"),
        "boto3": DynamoEntries.of("t", nowhere),
        "psycopg": PostgresEntries("postgresql://127.0.0.1:9/x"),
    }
    if kind != "sqlite":
        pytest.importorskip(kind)
    with pytest.raises(OSError, match=r"unable|connect|Connect"):
        entries[kind].get("t", 1)


def test_dynamodb_entries_look_as_the_reference_has_them(
    aws: Server, dynamodb_table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNAMODB_ENDPOINT", aws.url)
    entries = DynamoEntries.of(dynamodb_table, aws_options(aws.url))
    path = NamingScheme.V2.manifest_path(3)
    assert entries.put_if_absent("s3://bucket/some/path", 3, path, 369)
    assert entries.put_if_absent("/some/path", 2, path, 1)
    assert entries.get_latest("gs://another/some/path/") == (3, path)
    table = client(aws.url, "dynamodb")
    assert table.scan(TableName=dynamodb_table)["Items"][-1] == {
        "base_uri": {"S": "some/path"},
        "version": {"N": "3"},
        "path": {"S": f"some/path/{path}"},
        "size": {"N": "369"},
        "committer": {"S": "lancedb"},
    }
    detached: dict[str, Any] = {
        "base_uri": {"S": "some/path"},
        "version": {"N": str(2**63 + 5)},
        "path": {"S": f"some/path/_versions/d{2**63 + 5}.manifest"},
    }
    table.put_item(TableName=dynamodb_table, Item=detached)
    assert entries.get_latest("s3://bucket/some/path") == (3, path)
    table.put_item(TableName=dynamodb_table, Item={**detached, "version": {"N": "4"}})
    table.put_item(
        TableName=dynamodb_table, Item={**detached, "version": {"N": "5"}, "path": {"S": "/etc/x"}}
    )
    with pytest.raises(CorruptFileError, match="not below"):
        entries.get_latest("s3://bucket/some/path")
    with pytest.raises(InvalidInputError, match="hash key"):
        DynamoEntries.of("none", aws_options(aws.url)).get("t", 1)


@pytest.mark.parametrize(
    ("location", "options"),
    [
        ("s3+ddb://bucket/path", {}),
        ("s3+ddb://bucket/path?ddbTableName=t&x=1", {}),
        ("s3+ddb://bucket/path?table=t", {}),
        ("/t", {"manifest_store": "mysql://x"}),
        ("/t", {"manifest_store": "sqlite://relative.db"}),
        ("/t", {"manifest_store": "dynamodb://"}),
        ("/t", {"manifest_store": ""}),
    ],
)
def test_what_names_no_decider_is_refused(location: str, options: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match=r"ddbTableName|manifest_store"):
        pilum.dataset(location, storage_options=options)


def test_only_one_decides(tmp_path: Path) -> None:
    options = {"manifest_store": f"sqlite://{tmp_path}/entries.db"}
    handler = ExternalManifests(SqliteEntries(f"{tmp_path}/other.db"))
    with pytest.raises(InvalidInputError, match="only one"):
        pilum.dataset(tmp_path, storage_options=options, commit_handler=handler)
    same = ExternalManifests(SqliteEntries(f"{tmp_path}/entries.db"))
    assert handler_of(open_table(tmp_path, options, commit_handler=same)) == same
