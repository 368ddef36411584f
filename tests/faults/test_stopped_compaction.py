"""A compaction that is stopped at any effect on the store: no row is lost, and cleanup follows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.storage.durable import LocalSink
from pilum.storage.local import LocalStore

EFFECTS: list[tuple[type, str]] = [
    (LocalStore, "put"),
    (LocalStore, "put_if_absent"),
    (LocalStore, "delete"),
    (LocalSink, "write"),
    (LocalSink, "finish"),
]


class _Killed(BaseException):
    """Nothing runs any more, no cleaning up either."""


def stop_after(monkeypatch: pytest.MonkeyPatch, effects: int) -> None:
    """Lets so many effects through; all later ones fail, as after a kill."""
    left = effects

    def stopping(effect: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise _Killed
            return effect(*arguments, **more)

        return wrapped

    for owner, name in EFFECTS:
        monkeypatch.setattr(owner, name, stopping(getattr(owner, name)))
    monkeypatch.setattr(LocalSink, "abort", lambda sink: None)


@pytest.mark.parametrize("effects", range(0, 18, 3))
def test_a_stopped_compaction_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effects: int
) -> None:
    uri, options = str(tmp_path / "table"), {"sync": "false"}
    for first in range(0, 40, 10):
        table = pa.table({"a": pa.array(range(first, first + 10), pa.int64())})
        dataset = pilum.write_dataset(table, uri, mode="append", storage_options=options)
    dataset.delete("a = 25")
    with monkeypatch.context() as patch:
        stop_after(patch, effects)
        with suppress(_Killed):
            dataset.optimize.compact_files(target_rows_per_fragment=15)
    after = pilum.dataset(uri)
    assert sorted(after.to_table()["a"].to_pylist()) == [n for n in range(40) if n != 25]
    assert after.verify(deep=True).is_valid
    # Another one does the work, and what the first has left goes by its age.
    after.optimize.compact_files(target_rows_per_fragment=15)
    assert len(after.get_fragments()) == 2
    for path in (tmp_path / "table").rglob("*"):
        stamp = time.time() - 8 * 24 * 3600
        os.utime(path, (stamp, stamp))
    after.cleanup_old_versions(retain_versions=1)
    report = after.verify(deep=True)
    assert report.is_valid
    assert not report.orphaned
    assert after.count_rows() == 39
