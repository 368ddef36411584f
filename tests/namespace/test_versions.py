"""A folder manages the versions of its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum

api: Any = pytest.importorskip("lance_namespace", reason="lance-namespace is not installed")

ROWS = pa.table({"x": [1, 2]})


@pytest.fixture
def namespace(tmp_path: Path) -> Any:
    properties: dict[str, Any] = {"root": str(tmp_path), "table_version_tracking_enabled": "true"}
    return pilum.namespace.DirectoryNamespace(**properties)


@pytest.fixture
def versions(namespace: Any) -> Path:
    """Write two versions of a table, and return the folder of its versions."""
    where: dict[str, Any] = {"namespace_client": namespace, "table_id": ["t"]}
    table = pilum.write_dataset(ROWS, **where)
    pilum.write_dataset(ROWS, mode="append", **where)
    return Path(table.uri) / "_versions"


def numbers(namespace: Any, **arguments: Any) -> list[int]:
    answer = namespace.list_table_versions(api.ListTableVersionsRequest(id=["t"], **arguments))
    return [version.version for version in answer.versions]


def test_versions_are_listed_in_pages(namespace: Any, versions: Path) -> None:
    assert (numbers(namespace), numbers(namespace, descending=True)) == ([1, 2], [2, 1])
    request = api.ListTableVersionsRequest(id=["t"], limit=1, descending=True)
    first = namespace.list_table_versions(request)
    assert first.page_token is not None
    assert numbers(namespace, page_token=first.page_token, descending=True) == [1]
    for arguments in ({"limit": 0}, {"page_token": "x"}):
        with pytest.raises(api.InvalidInputError, match=next(iter(arguments))):
            numbers(namespace, **arguments)


def test_a_version_is_described_with_its_manifest(namespace: Any, versions: Path) -> None:
    for number, expected in ((1, 1), (None, 2)):
        request = api.DescribeTableVersionRequest(id=["t"], version=number)
        found = namespace.describe_table_version(request).version
        path = Path("/" + found.manifest_path)
        assert (found.version, path.parent) == (expected, versions)
        assert found.manifest_size == path.stat().st_size
    with pytest.raises(api.TableVersionNotFoundError):
        namespace.describe_table_version({"id": ["t"], "version": 9})


def test_a_version_follows_the_latest_one(namespace: Any, versions: Path) -> None:
    pilum.write_dataset(ROWS, versions.parent, mode="append")
    staged = (versions / "18446744073709551612.manifest").rename(versions / "staged")
    (versions / "half").write_bytes(staged.read_bytes()[:-9])
    request = {"id": ["t"], "manifest_path": str(staged)[1:], "naming_scheme": "V2"}
    for number in (1, 2, 4):
        with pytest.raises(api.ConcurrentModificationError, match="does not follow"):
            namespace.create_table_version({**request, "version": number})
    for wrong in (
        {"manifest_path": "nothing"},
        {"manifest_path": "../" + str(staged)[1:]},
        {"manifest_path": f"{str(versions)[1:]}/../../staged"},
        {"manifest_path": f"{str(versions)[1:]}/nothing"},
        {"manifest_path": f"{str(versions)[1:]}/half"},
        {"manifest_path": f"{str(versions)[1:]}/18446744073709551613.manifest"},
        {"manifest_size": 3},
        {"naming_scheme": "V9"},
    ):
        with pytest.raises(api.InvalidInputError, match=next(iter(wrong))):
            namespace.create_table_version({**request, "version": 3, **wrong})
    created = namespace.create_table_version(
        api.CreateTableVersionRequest(**request, version=3, manifest_size=staged.stat().st_size)
    )
    assert created.version.manifest_path.endswith("/18446744073709551612.manifest")
    assert (numbers(namespace), staged.exists()) == ([1, 2, 3], False)


def test_ranges_of_versions_are_deleted(namespace: Any, versions: Path) -> None:
    pilum.write_dataset(ROWS, mode="append", namespace_client=namespace, table_id=["t"])

    def delete(*bounds: tuple[int, int]) -> int:
        ranges = [{"start_version": start, "end_version": end} for start, end in bounds]
        request = api.BatchDeleteTableVersionsRequest(id=["t"], ranges=ranges)
        count: int = namespace.batch_delete_table_versions(request).deleted_count
        return count

    assert (delete((1, 2)), numbers(namespace)) == (1, [2, 3])
    assert (delete((9, 12)), numbers(namespace)) == (0, [2, 3])
    for bounds in ([(3, -1)], [(1, 9)], [(2, 3), (3, 4)]):
        with pytest.raises(api.InvalidInputError, match="version 3 is the latest one"):
            delete(*bounds)
    assert numbers(namespace) == [2, 3]


def test_a_client_is_told_that_versions_are_managed(namespace: Any, tmp_path: Path) -> None:
    declared = namespace.declare_table(api.DeclareTableRequest(id=["t"]))
    described = namespace.describe_table(api.DescribeTableRequest(id=["t"]))
    assert declared.managed_versioning is described.managed_versioning is True
    plain = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    assert plain.describe_table(api.DescribeTableRequest(id=["t"])).managed_versioning is None
