"""What the tests of tables share: a store, and fragments whose files nobody opens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pilum.format.fields import Field, FieldId
from pilum.format.schema import Schema
from pilum.storage.local import LocalStore
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.publish import commit
from pilum.table.commit.transaction import Transaction
from pilum.table.model.fragment import DataFile, Fragment, FragmentId
from pilum.table.model.names import new_data_file_name

MakeFragment = Callable[..., Fragment]


@pytest.fixture
def schema() -> Schema:
    return Schema(
        (
            Field("a", FieldId(0), "int32", nullable=False, metadata={}),
            Field("s", FieldId(1), "string", metadata={}),
        ),
        {},
    )


@pytest.fixture
def make_fragment() -> MakeFragment:
    def make(
        rows: int = 5, fields: tuple[int, ...] = (0, 1), number: int = 0, minor: int = 1
    ) -> Fragment:
        ids = tuple(map(FieldId, fields))
        file = DataFile(new_data_file_name(), ids, tuple(range(len(ids))), 2, minor, 1000)
        return Fragment(FragmentId(number), (file,), rows)

    return make


@pytest.fixture
def empty_store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "table"), sync=False)


@pytest.fixture
def store(empty_store: LocalStore, schema: Schema, make_fragment: MakeFragment) -> LocalStore:
    """A table of two versions with 5 and 3 rows."""
    commit(empty_store, Transaction(0, Overwrite(schema, (make_fragment(5),))))
    commit(empty_store, Transaction(1, Append((make_fragment(3),))))
    return empty_store
