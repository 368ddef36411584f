"""kill -9 of a writer between any two effects on the file system.

Whenever it comes: the table opens, an acknowledged change is there, one that was not is there whole
or not at all, the next writer goes on, and a cleanup removes what is left over.

Some moments of each operation are tried; `make explore` tries others.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest
from concurrency.killing import Killer
from concurrency.operations import OPERATIONS, OPTIONS, prepare
from concurrency.seen import seen

import pilum
from pilum.table.model.manifest_file import load_named
from pilum.table.model.names import data_path, transaction_path
from pilum.table.versions.commit_handler import list_manifests, open_table

SAMPLE = 4


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prepared") / "t"
    prepare(str(path))
    return path


def options_for(path: Path) -> dict[str, str]:
    entries = Path(f"{path}.db")
    return {**OPTIONS, "manifest_store": f"sqlite://{entries}"} if entries.exists() else OPTIONS


def moments(effects: int, seed: int) -> Iterable[int]:
    if effects <= SAMPLE:
        return range(effects)
    # Before and after the only visible step of a commit, behind which the hint is written.
    chosen = random.Random(effects + seed).sample(range(effects - 5), SAMPLE - 2)
    return [*sorted(chosen), effects - 5, effects - 4]


def left_over(path: Path) -> set[str]:
    """Files that no version refers to; what versions refer to must be there."""
    store = open_table(path, options_for(path))
    known = {"_versions/latest_version_hint.json"}
    for name in list_manifests(store):
        manifest = load_named(store, name)
        known.add(name.path)
        known.add(transaction_path(manifest.transaction_file))
        for fragment in manifest.fragments:
            known.update(data_path(file.path) for file in fragment.files)
            if fragment.deletion_file:
                known.add(fragment.deletion_file.path(fragment.id))
    files = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
    missing = {name for name in known - files if "hint" not in name and ".txn" not in name}
    assert not missing
    return {name for name in files - known if not name.startswith(("_refs/", "tree/"))}


@pytest.mark.checklist("S2.8", "S2.10")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.seeds(1)
def test_whenever_a_writer_dies_the_table_is_whole(
    victim: Killer, prepared: Path, tmp_path: Path, operation: str, seed: int
) -> None:
    def fresh(name: object) -> Path:
        path = tmp_path / str(name)
        if OPERATIONS[operation].needs_table:
            shutil.copytree(prepared, path)
        return path

    before = seen(fresh("before"), OPTIONS)
    whole = fresh("after")
    outcome = victim.run(operation, whole)
    after = seen(whole, options_for(whole))
    assert outcome.survived
    assert outcome.effects > 2
    assert after is not None
    for moment in moments(outcome.effects, seed):
        path = fresh(moment)
        died = victim.run(operation, path, moment)
        assert not died.survived
        found = seen(path, options_for(path))
        assert found in (before, after), f"killed at effect {moment}"
        if found is None:
            assert operation == "create"
            continue
        data = pilum.dataset(path, storage_options=options_for(path))
        numbers = [version["version"] for version in data.versions()]
        assert operation == "cleanup" or numbers == list(range(1, data.version + 1))
        left_over(path)
        data.insert(data.to_table().slice(0, 1))  # the next writer goes on
        assert data.count_rows() == len(found[0]) + 1
        assert data.version == numbers[-1] + 1
        data.cleanup_old_versions(timedelta(days=1), delete_unverified=True)
        assert not left_over(path)


@pytest.mark.seeds(1)
def test_a_job_that_is_killed_and_started_again_is_in_once(
    victim: Killer, prepared: Path, tmp_path: Path, seed: int
) -> None:
    before = seen(prepared)[0]
    whole = tmp_path / "whole"
    shutil.copytree(prepared, whole)
    outcome = victim.run("keyed append", whole)
    for moment in moments(outcome.effects, seed):
        path = tmp_path / str(moment)
        shutil.copytree(prepared, path)
        assert not victim.run("keyed append", path, moment).survived
        assert victim.run("keyed append", path).survived
        rows, *_ = seen(path)
        assert [row["id"] for row in rows] == [*(row["id"] for row in before), *range(10, 15)]
