"""Tables whose versions a namespace manages."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import (
    CommitError,
    CommitStatusUnknownError,
    CorruptFileError,
    InvalidInputError,
    UnsupportedFeatureError,
)

api: Any = pytest.importorskip("lance_namespace", reason="lance-namespace is not installed")

ROWS = pa.table({"x": [1, 2]})


class Catalog(api.LanceNamespace):  # type: ignore[misc]  # it has no types
    """A namespace of one table, which leaves each manifest where the writer put it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.versions: dict[tuple[str | None, int], str] = {}
        self.before: Callable[[], None] = lambda: None
        self.page_size: int | None = None
        self.lock = threading.Lock()
        self.deletes = True

    def namespace_id(self) -> str:
        return f"Catalog({self.root})"

    def declare_table(self, request: Any) -> Any:
        return api.DeclareTableResponse(location=str(self.root / "t"), managed_versioning=True)

    def describe_table(self, request: Any) -> Any:
        return api.DescribeTableResponse(location=str(self.root / "t"), managed_versioning=True)

    def create_table_version(self, request: Any) -> Any:
        self.before()
        assert Path("/" + request.manifest_path).stat().st_size == request.manifest_size
        with self.lock:
            if (request.branch, request.version) in self.versions:
                raise api.ConcurrentModificationError("there is such a version")
            self.versions[request.branch, request.version] = request.manifest_path
        return api.CreateTableVersionResponse()

    def list_table_versions(self, request: Any) -> Any:
        found = [self.version(*key) for key in sorted([*self.versions], key=lambda key: -key[1])
                 if key[0] == request.branch]  # fmt: skip
        found = found[int(request.page_token or 0) :]
        limit = request.limit or self.page_size or len(found)
        token = str(int(request.page_token or 0) + limit) if len(found) > limit else None
        return api.ListTableVersionsResponse(versions=found[:limit], page_token=token)

    def batch_delete_table_versions(self, request: Any) -> Any:
        if not self.deletes:
            raise api.UnsupportedOperationError("it deletes nothing")
        for one in request.ranges:
            for number in range(one["start_version"], one["end_version"]):
                del self.versions[request.branch, number]
        return api.BatchDeleteTableVersionsResponse()

    def describe_table_version(self, request: Any) -> Any:
        if (request.branch, request.version) not in self.versions:
            raise api.TableVersionNotFoundError(f"no version {request.version}")
        found = self.version(request.branch, request.version)
        return api.DescribeTableVersionResponse(version=found)

    def version(self, branch: str | None, number: int) -> Any:
        return api.TableVersion(version=number, manifest_path=self.versions[branch, number])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


@pytest.fixture
def where(catalog: Catalog) -> dict[str, Any]:
    return {"namespace_client": catalog, "table_id": ["t"]}


def test_the_namespace_decides_which_versions_there_are(
    catalog: Catalog, where: dict[str, Any]
) -> None:
    pilum.write_dataset(ROWS, **where)
    pilum.write_dataset(ROWS, mode="append", **where)
    table = pilum.dataset(**where)
    table.delete("x = 1")
    assert list(catalog.versions) == [(None, 1), (None, 2), (None, 3)]
    assert pilum.dataset(**where).count_rows() == 2
    assert pilum.dataset(version=1, **where).count_rows() == 2
    catalog.page_size = 1
    assert [version["version"] for version in table.versions()] == [1, 2, 3]
    del catalog.versions[None, 3]
    assert pilum.dataset(**where).count_rows() == 4
    with pytest.raises(pilum.errors.DatasetNotFoundError):  # without the namespace
        pilum.dataset(str(catalog.root / "t"))


def test_branches_have_versions_of_their_own(catalog: Catalog, where: dict[str, Any]) -> None:
    table = pilum.write_dataset(ROWS, **where)
    branch = table.create_branch("dev/a")
    branch.insert(ROWS)
    assert [*catalog.versions] == [(None, 1), ("dev/a", 1), ("dev/a", 2)]
    assert pilum.dataset(version=("dev/a", None), **where).count_rows() == 4
    assert pilum.dataset(**where).count_rows() == 2


def test_of_two_writers_of_a_version_one_continues_on_the_other(
    catalog: Catalog, where: dict[str, Any]
) -> None:
    pilum.write_dataset(ROWS, **where)

    def append_first() -> None:
        catalog.before = lambda: None
        pilum.write_dataset(ROWS, mode="append", **where)

    catalog.before = append_first
    written = pilum.write_dataset(ROWS, mode="append", **where)
    assert (written.version, written.count_rows()) == (3, 6)
    staged = sorted(path.name for path in (catalog.root / "t" / "_versions").glob("*.manifest-*"))
    assert staged == sorted(Path(path).name for path in catalog.versions.values())


def test_many_writers_lose_nothing(catalog: Catalog, where: dict[str, Any]) -> None:
    pilum.write_dataset(ROWS, **where)

    def append() -> None:
        pilum.write_dataset(ROWS, mode="append", **where)

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pilum.dataset(**where).count_rows() == 10


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (api.PermissionDeniedError("no"), CommitError),
        (api.InternalError("lost"), CommitStatusUnknownError),
    ],
)
def test_errors_of_the_namespace_say_whether_it_is_committed(
    catalog: Catalog, where: dict[str, Any], raised: Exception, expected: type[Exception]
) -> None:
    pilum.write_dataset(ROWS, **where)

    def fail() -> None:
        raise raised

    catalog.before = fail
    with pytest.raises(expected, match=r"no|lost"):
        pilum.write_dataset(ROWS, mode="append", **where)
    assert pilum.dataset(**where).count_rows() == 2


def test_a_commit_whose_answer_is_lost_counts(
    catalog: Catalog, where: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pilum.write_dataset(ROWS, **where)
    create = catalog.create_table_version

    def lose(request: Any) -> None:
        create(request)
        raise api.ServiceUnavailableError("lost")

    monkeypatch.setattr(catalog, "create_table_version", lose)
    assert pilum.write_dataset(ROWS, mode="append", **where).version == 2
    assert [*catalog.versions] == [(None, 1), (None, 2)]


def test_a_commit_that_is_requested_again_on_the_way_counts(
    catalog: Catalog, where: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pilum.write_dataset(ROWS, **where)
    create = catalog.create_table_version

    def twice(request: Any) -> Any:
        create(request)
        return create(request)

    monkeypatch.setattr(catalog, "create_table_version", twice)
    pilum.write_dataset(ROWS, mode="append", **where)
    found = pilum.dataset(**where)
    assert (found.version, found.count_rows()) == (2, 4)


def test_a_wrong_path_of_the_namespace_is_reported(catalog: Catalog, where: dict[str, Any]) -> None:
    pilum.write_dataset(ROWS, **where)
    right = catalog.versions[None, 1]
    for wrong in ("", "x", right + "x", "_versions/../x.manifest", right.replace("614", "613")):
        catalog.versions[None, 1] = wrong
        with pytest.raises(CorruptFileError, match="the namespace has the manifest"):
            pilum.dataset(**where)


def test_another_decider_is_refused(where: dict[str, Any]) -> None:
    pilum.write_dataset(ROWS, **where)
    for arguments in ({"commit_lock": lambda _: nullcontext()}, {"commit_handler": object()}):
        with pytest.raises(InvalidInputError, match="manages the versions"):
            pilum.dataset(**where, **arguments)
        with pytest.raises(InvalidInputError, match="manages the versions"):
            pilum.write_dataset(ROWS, mode="append", **where, **arguments)


def test_a_dataset_is_pickled_with_its_namespace(tmp_path: Path) -> None:
    properties: dict[str, Any] = {"root": str(tmp_path), "table_version_tracking_enabled": "true"}
    namespace = pilum.namespace.DirectoryNamespace(**properties)
    table = pilum.write_dataset(ROWS, namespace_client=namespace, table_id=["t"])
    copy = pickle.loads(pickle.dumps(table))
    copy.delete("x = 1")
    request = api.ListTableVersionsRequest(id=["t"])
    assert len(namespace.list_table_versions(request).versions) == 2


def test_fragments_are_committed_through_the_namespace(
    catalog: Catalog, where: dict[str, Any]
) -> None:
    table = pilum.write_dataset(ROWS, **where)
    made = pilum.fragment.write_fragments(ROWS, table.uri, **where)
    one = pilum.LanceFragment.create(table.uri, ROWS, **where)
    append = pilum.LanceOperation.Append([*made, one])
    committed = pilum.LanceDataset.commit(
        table.uri, append, read_version=1, namespace_client_managed_versioning=True, **where
    )
    assert (committed.version, committed.count_rows(), len(catalog.versions)) == (2, 6, 2)
    with pytest.raises(InvalidInputError, match="no version 1"):
        pilum.LanceDataset.commit(table.uri, append, read_version=1)
    with pytest.raises(InvalidInputError, match="does not manage"):
        pilum.LanceDataset.commit(
            table.uri, append, read_version=1, namespace_client_managed_versioning=True
        )
    with pytest.raises(InvalidInputError, match="table_id is None"):
        pilum.LanceDataset.commit(table.uri, append, read_version=1, namespace_client=catalog)


def test_a_cleanup_removes_versions_from_the_namespace(
    catalog: Catalog, where: dict[str, Any]
) -> None:
    table = pilum.write_dataset(ROWS, **where)
    for _ in range(4):
        table.insert(ROWS)
    table.tags.create("kept", 3)
    keep: dict[str, Any] = {"older_than": timedelta(0), "error_if_tagged_old_versions": False}
    catalog.deletes = False
    with pytest.raises(UnsupportedFeatureError, match="deletes nothing"):
        table.cleanup_old_versions(**keep)
    assert pilum.dataset(version=1, **where).count_rows() == 2
    catalog.deletes = True
    assert table.cleanup_old_versions(**keep).old_versions == 3
    assert list(catalog.versions) == [(None, 3), (None, 5)]
    assert [version["version"] for version in table.versions()] == [3, 5]
    assert pilum.dataset(version=3, **where).count_rows() == 6
    names = {path.name for path in (catalog.root / "t" / "_versions").glob("*.manifest-*")}
    assert names == {Path(path).name for path in catalog.versions.values()}


def test_a_cleanup_of_a_folder_that_manages_versions(tmp_path: Path) -> None:
    properties: dict[str, Any] = {"root": str(tmp_path), "table_version_tracking_enabled": "true"}
    where: dict[str, Any] = {
        "namespace_client": pilum.namespace.DirectoryNamespace(**properties),
        "table_id": ["t"],
    }
    table = pilum.write_dataset(ROWS, **where)
    table.insert(ROWS, mode="overwrite")
    found = table.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert (found.old_versions, pilum.dataset(**where).count_rows()) == (1, 2)
    assert len(list(Path(table.uri).glob("data/*.lance"))) == 1
