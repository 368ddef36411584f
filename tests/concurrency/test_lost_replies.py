"""Every change when the answer to its commit is lost: it is applied once, and exactly once.

The handler does what it is told and then says nothing, or that another was first, as a client does
that repeats a request whose answer it never got.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from concurrency.operations import OPERATIONS, prepare
from concurrency.seen import seen

import pilum
from pilum.errors import CommitStatusUnknownError
from pilum.storage.base import Store
from pilum.table.model.names import ManifestName
from pilum.table.versions.commit_handler import ConditionalPut

COMMITS = [name for name, change in OPERATIONS.items() if change.commits]


@dataclass(frozen=True, slots=True)
class LostReplies(ConditionalPut):
    """Decides, and does not tell.

    Attributes:
        arrives: Whether requests do.
        raises: Whether the client raises; else it has repeated the request, and lost.
    """

    arrives: bool = True
    raises: bool = True

    def publish(self, store: Store, name: ManifestName, data: bytes) -> bool:
        if self.arrives:
            ConditionalPut.publish(self, store, name, data)
        if self.raises:
            raise TimeoutError("no answer")
        return False


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prepared") / "t"
    prepare(str(path))
    return path


def files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


@pytest.mark.checklist("S2.8")
@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("operation", COMMITS)
def test_a_change_without_an_answer_is_applied_once(
    prepared: Path, tmp_path: Path, operation: str, raises: bool
) -> None:
    change, answered, silent = OPERATIONS[operation], tmp_path / "answered", tmp_path / "silent"
    for path, handler in ((answered, ConditionalPut()), (silent, LostReplies(raises=raises))):
        if change.needs_table:
            shutil.copytree(prepared, path)
        change.act(str(path), handler)
    assert seen(silent) == seen(answered)
    assert pilum.dataset(silent).version == pilum.dataset(answered).version
    assert len(files(silent)) == len(files(answered))


@pytest.mark.parametrize("operation", COMMITS)
def test_a_change_of_unknown_outcome_says_so_and_deletes_nothing(
    prepared: Path, tmp_path: Path, operation: str
) -> None:
    change, path = OPERATIONS[operation], tmp_path / "t"
    if change.needs_table:
        shutil.copytree(prepared, path)
    before, there = seen(path), files(path)
    with pytest.raises(CommitStatusUnknownError, match="not known whether version"):
        change.act(str(path), LostReplies(arrives=False))
    assert seen(path) == before
    left = files(path) - there
    assert there <= files(path)
    assert len([name for name in left if name.endswith(".txn")]) == 1
    if operation in {"create", "append", "overwrite", "keyed append", "update", "add columns"}:
        assert any(name.startswith("data/") for name in left)
