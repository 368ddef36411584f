"""Config and metadata that one library changed, seen and changed by the other (S2.1, S2.9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import CommitConflictError
from pilum.format.pb import transaction_pb2
from pilum.storage.local import LocalStore
from pilum.table.model.manifest_file import load_manifest_and_transaction
from pilum.table.versions.commit_handler import list_manifests

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

ORDERS = pytest.mark.parametrize(
    ("first", "second"), [(pilum, lance), (lance, pilum)], ids=["pilum first", "lance first"]
)
TABLE = pa.table({"a": [1, 2], "s": [{"x y": [3]}, {"x y": []}]})
CHANGES: list[tuple[str, tuple[Any, ...], dict[str, bool]]] = [
    ("update_config", ({"a": "1", "ß": "💧"},), {}),
    ("update_config", ({"a": None, "b": "2", "no": None},), {}),
    ("update_metadata", ({"n": "1", "m": ""},), {}),
    ("update_schema_metadata", ({"k": "v"},), {}),
    ("update_field_metadata", ({"a": {"k": "v"}, "s.x y": {"l": "w"}},), {}),
    ("update_field_metadata", ({"s.`x y`.item": {"deep": "x"}, "a": {"k": None}},), {}),
    ("update_field_metadata", ({"s.x y": {"only": "1"}},), {"replace": True}),
    ("update_schema_metadata", ({"j": "w", "k": None},), {"replace": True}),
    ("update_metadata", ({"n": None},), {}),
    ("update_config", ({"c": "3"},), {"replace": True}),
    ("delete_config_keys", (["c", "no"],), {}),
]


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    lance.write_dataset(TABLE, path, data_storage_version="2.1")
    return path


def assert_same_state(path: str) -> None:
    ours, theirs = pilum.dataset(path), lance.dataset(path)
    assert ours.version == theirs.version
    assert ours.config() == theirs.config()
    assert ours.metadata == theirs.metadata
    assert ours.schema_metadata == theirs.schema_metadata
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.to_table().equals(theirs.to_table())


def messages(path: str) -> list[transaction_pb2.Transaction.UpdateConfig]:
    store = LocalStore(path)
    found = [load_manifest_and_transaction(store, name.path) for name in list_manifests(store)]
    return [transaction.update_config for _, transaction in found[1:] if transaction]


@ORDERS
def test_both_change_in_turns(path: str, first: Any, second: Any) -> None:
    for number, (name, arguments, options) in enumerate(CHANGES):
        library = (first, second)[number % 2]
        dataset = library.dataset(path)
        dataset.update_config({"turn": str(number)})
        result = getattr(dataset, name)(*arguments, **options)
        assert_same_state(path)
        if result is not None:
            kept = {"update_config": dataset.config()}
            assert result == kept.get(name, result)
    lance.dataset(path).validate()


def test_the_same_transactions_and_manifests(tmp_path: Path) -> None:
    manifests = []
    for library in (pilum, lance):
        path = str(tmp_path / library.__name__)
        lance.write_dataset(TABLE, path, data_storage_version="2.1")
        for name, arguments, options in CHANGES:
            getattr(library.dataset(path), name)(*arguments, **options)
        manifests.append(pilum.dataset(path).snapshot.manifest)
    mine, theirs = (messages(str(tmp_path / name)) for name in ("pilum", "lance"))
    assert len(mine) == len(CHANGES)
    for one, other in zip(mine, theirs, strict=True):
        for message in (one, other):
            for update in message.ListFields():
                maps = [update[1]] if update[0].number != 9 else list(update[1].values())
                for found in maps:
                    found.update_entries.sort(key=lambda entry: entry.key)
        assert one == other
    ours, other_manifest = manifests
    assert ours.schema == other_manifest.schema
    assert (ours.config, ours.table_metadata) == ({}, {"m": ""})
    assert (ours.reader_flags, ours.writer_flags) == (0, 0)
    assert (other_manifest.config, other_manifest.table_metadata) == ({}, {"m": ""})


CHANGED = [
    lambda dataset: dataset.update_config({"k": "v"}),
    lambda dataset: dataset.update_config({"k": None}),
    lambda dataset: dataset.update_config({"j": "v"}, replace=True),
    lambda dataset: dataset.update_metadata({"k": None}),
    lambda dataset: dataset.update_schema_metadata({"k": "v"}),
    lambda dataset: dataset.update_field_metadata({"a": {"k": "v"}}),
    lambda dataset: dataset.update_field_metadata({"s": {"k": "v"}}),
    lambda dataset: dataset.restore(),
]


@pytest.mark.parametrize("theirs", range(len(CHANGED)))
@pytest.mark.parametrize("mine", range(len(CHANGED) - 1))
def test_the_same_conflicts(tmp_path: Path, mine: int, theirs: int) -> None:
    """After each change of the one, every change of the other from the version before."""
    outcomes = []
    for first, second in ((pilum, lance), (lance, pilum)):
        path = str(tmp_path / first.__name__)
        lance.write_dataset(TABLE, path, data_storage_version="2.1")
        late = second.dataset(path)
        CHANGED[theirs](first.dataset(path))
        try:
            CHANGED[mine](late)
            outcomes.append("fine")
            assert_same_state(path)
        except CommitConflictError:
            outcomes.append("conflict")
        except OSError as error:
            outcomes.append("conflict" if "Incompatible" in str(error) else str(error))
    assert outcomes[0] == outcomes[1]
