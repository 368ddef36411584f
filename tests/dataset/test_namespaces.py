"""Tables are opened and written by their ids in a namespace."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import pilum
import pilum.file
from pilum.errors import InvalidInputError, MissingDependencyError

api: Any = pytest.importorskip("lance_namespace", reason="lance-namespace is not installed")

ROWS = pa.table({"x": [1, 2]})


class Catalog(api.LanceNamespace):  # type: ignore[misc]  # it has no types
    """A namespace that keeps locations in a dict, and vends the same options for all."""

    def __init__(self, root: Path, options: dict[str, str] | None = None) -> None:
        self.root, self.options = root, options
        self.locations: dict[tuple[str, ...], str] = {}

    def namespace_id(self) -> str:
        return f"Catalog({self.root})"

    def describe_table(self, request: Any) -> Any:
        if tuple(request.id) not in self.locations:
            raise api.TableNotFoundError(f"no table {request.id}")
        return self._answer(api.DescribeTableResponse, request.id)

    def declare_table(self, request: Any) -> Any:
        if tuple(request.id) in self.locations:
            raise api.TableAlreadyExistsError(f"{request.id} exists")
        self.locations[tuple(request.id)] = str(self.root / "-".join(request.id))
        return self._answer(api.DeclareTableResponse, request.id)

    def _answer(self, kind: Any, name: Sequence[str]) -> Any:
        location = self.locations[tuple(name)]
        return kind(location=location, storage_options=self.options)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


def test_a_table_is_created_continued_and_opened_by_its_id(catalog: Catalog) -> None:
    where: dict[str, Any] = {"namespace_client": catalog, "table_id": ["sales", "orders"]}
    created = pilum.write_dataset(ROWS, **where)
    assert created.uri == str(catalog.root / "sales-orders")
    pilum.write_dataset(ROWS, mode="append", **where)
    assert pilum.dataset(**where).count_rows() == 4
    assert pilum.dataset(version=1, **where).count_rows() == 2
    assert pilum.dataset(asof=datetime(2999, 1, 1, tzinfo=UTC), **where).count_rows() == 4
    pilum.write_dataset(pa.table({"y": ["a"]}), mode="overwrite", **where)
    assert pilum.dataset(**where).to_table().to_pydict() == {"y": ["a"]}


def test_options_of_the_namespace_precede_those_that_are_passed(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, {"mmap": "false"})
    where: dict[str, Any] = {"namespace_client": catalog, "table_id": ["t"]}
    written = pilum.write_dataset(ROWS, storage_options={"mmap": "true"}, **where)
    assert written.initial_storage_options == catalog.options
    opened = pilum.dataset(storage_options={"sync": "false"}, **where)
    assert opened.initial_storage_options == {"sync": "false", "mmap": "false"}
    assert pilum.dataset(**where).initial_storage_options == catalog.options


def test_options_that_expire_are_renewed_by_the_namespace(catalog: Catalog) -> None:
    pilum.write_dataset(ROWS, namespace_client=catalog, table_id=["t"])
    catalog.options = {"expires_at_millis": "1"}
    where: dict[str, Any] = {"namespace_client": catalog, "table_id": ["t"]}
    first, again = (pilum.dataset(**where).initial_storage_options for _ in range(2))
    assert first is not None
    assert again is not None
    expiry: Any = first["expires_at_millis"]
    other: Any = again["expires_at_millis"]
    catalog.options = {"expires_at_millis": "2", "mmap": "true"}
    assert (expiry, expiry.renew()) == ("1", catalog.options)
    assert expiry.renew == other.renew
    assert pickle.loads(pickle.dumps(expiry)).renew() == catalog.options
    assert pickle.loads(pickle.dumps(pilum.dataset(**where))).count_rows() == 2


def test_errors_of_the_namespace_are_passed_on(catalog: Catalog) -> None:
    where: dict[str, Any] = {"namespace_client": catalog, "table_id": ["t"]}
    with pytest.raises(api.TableNotFoundError):
        pilum.dataset(**where)
    with pytest.raises(api.TableNotFoundError):
        pilum.write_dataset(ROWS, mode="append", **where)
    pilum.write_dataset(ROWS, **where)
    with pytest.raises(api.TableAlreadyExistsError):
        pilum.write_dataset(ROWS, **where)
    assert pilum.dataset(**where).count_rows() == 2


def test_a_job_that_creates_a_table_is_idempotent(catalog: Catalog) -> None:
    where: dict[str, Any] = {"namespace_client": catalog, "table_id": ["t"]}
    for _ in range(2):
        written = pilum.write_dataset(ROWS, idempotency_key="first", **where)
        assert (written.version, written.count_rows()) == (1, 2)
    with pytest.raises(pilum.errors.DatasetAlreadyExistsError):
        pilum.write_dataset(ROWS, idempotency_key="second", **where)


def test_nothing_is_declared_for_a_write_with_an_invalid_argument(catalog: Catalog) -> None:
    with pytest.raises(InvalidInputError, match="mode='append'"):
        pilum.write_dataset(ROWS, schema_mode="merge", namespace_client=catalog, table_id=["t"])
    assert catalog.locations == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "found neither"),
        ({"uri": "t", "namespace_client": 1, "table_id": ["t"]}, "found both"),
        ({"uri": "t", "table_id": ["t"]}, "found both"),
        ({"namespace_client": 1}, "table_id is None"),
        ({"table_id": ["t"]}, "namespace_client is None"),
        ({"namespace_client": 1, "table_id": "t"}, "expected a list of names"),
        ({"namespace_client": 1, "table_id": []}, "expected a list of names"),
        ({"namespace_client": 1, "table_id": [1]}, "expected a list of names"),
        ({"namespace_client": 1, "table_id": ["t"]}, "int, which has no method"),
    ],
)
def test_a_table_is_named_in_one_way(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        pilum.dataset(**arguments)
    with pytest.raises(InvalidInputError, match=message):
        pilum.write_dataset(ROWS, **arguments)


def test_a_namespace_has_to_know_the_location() -> None:
    answer = SimpleNamespace(location=None, storage_options=None)
    client = SimpleNamespace(describe_table=lambda _: answer)
    with pytest.raises(InvalidInputError, match="returned no location"):
        pilum.dataset(namespace_client=client, table_id=["t"])


def test_the_optional_package_is_named(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lance_namespace", None)
    with pytest.raises(MissingDependencyError, match="pip install lance-namespace"):
        pilum.dataset(namespace_client=catalog, table_id=["t"])


def test_datasets_and_files_at_a_known_place_ask_for_options(catalog: Catalog) -> None:
    where: dict[str, Any] = {"namespace_client": catalog, "table_id": ["t"]}
    uri = pilum.write_dataset(ROWS, **where).uri
    catalog.options = {"mmap": "false"}
    opened = pilum.LanceDataset(uri, storage_options={"sync": "false"}, **where)
    assert opened.initial_storage_options == {"sync": "false", "mmap": "false"}
    assert opened.count_rows() == 2
    path = f"{uri}/data/more.lance"
    with pilum.file.LanceFileWriter(path, **where) as writer:
        writer.write_batch(ROWS)
    assert pilum.file.LanceFileReader(path, **where).read_all().to_table().equals(ROWS)
    session = pilum.file.LanceFileSession(uri, **where)
    assert session.open_reader("data/more.lance").num_rows() == 2
    catalog.options = {"mmap": "perhaps"}  # shows that the options reach the store
    for opening in (pilum.LanceDataset, pilum.file.LanceFileReader, pilum.file.LanceFileSession):
        with pytest.raises(InvalidInputError, match="perhaps"):
            opening(path, **where)
    with pytest.raises(InvalidInputError, match="perhaps"):
        pilum.file.LanceFileWriter(path, **where)
    for kind in (pilum.LanceDataset, pilum.file.LanceFileReader, pilum.file.LanceFileWriter):
        with pytest.raises(InvalidInputError, match="table_id is None"):
            kind(path, namespace_client=catalog)
