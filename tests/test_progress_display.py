"""Progress of long work is shown in terminals, and nowhere else; an interrupt leaves nothing."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.progress_display import counted, progress

ROOT = Path(__file__).parents[1]
_CURSOR_OFF, _CURSOR_ON = "\x1b[?25l", "\x1b[?25h"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    """A terminal on which bars appear at once."""
    pytest.importorskip("rich")
    found = _Terminal()
    # pytest replaces the stream itself between this fixture and the test.
    monkeypatch.setattr(
        "pilum.progress_display.sys", SimpleNamespace(stderr=found, modules=sys.modules)
    )
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("PILUM_PROGRESS", raising=False)
    monkeypatch.setattr("pilum.progress_display._DELAY_SECONDS", 0)
    return found


def test_a_bar_is_shown_in_a_terminal(terminal: _Terminal) -> None:
    with progress("Compacting [x]", 10) as advance:
        advance(4)
        advance(6)
    assert "Compacting [x]" in terminal.getvalue()
    assert "10/10" in terminal.getvalue()


def test_operations_within_others_and_in_threads_share_the_display(terminal: _Terminal) -> None:
    def work(name: str) -> None:
        with progress(name, None) as advance:
            advance(1)
            if name == "outer":
                inner = Thread(target=work, args=("inner",))
                inner.start()
                inner.join()
            advance(1)

    work("outer")
    assert "outer" in terminal.getvalue()
    assert "inner" in terminal.getvalue()
    work("later")
    assert "later" in terminal.getvalue()


def test_a_bar_ends_with_an_error(terminal: _Terminal) -> None:
    def interrupted() -> None:
        with progress("Writing", None) as advance:
            advance(1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert terminal.getvalue().rindex(_CURSOR_ON) > terminal.getvalue().rindex(_CURSOR_OFF)
    with progress("Again", None) as advance:
        advance(1)
    assert "Again" in terminal.getvalue()


class _Cell:
    """A notebook's cell, as far as IPython displays data in it."""

    def __init__(self) -> None:
        self.outputs: dict[str, dict[str, str]] = {}
        self.seen = ""
        self.modules: dict[str, Any] = {
            **sys.modules,
            "ipykernel": SimpleNamespace(),
            "IPython": SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel="python3")),
            "IPython.display": SimpleNamespace(publish_display_data=self.publish),
        }

    def publish(
        self, data: dict[str, str], *, transient: dict[str, str], update: bool = False
    ) -> None:
        place = transient["display_id"]
        assert update == (place in self.outputs)
        self.outputs[place] = data
        self.seen += data.get("text/html", "")


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> _Cell:
    pytest.importorskip("rich")
    found = _Cell()
    system = SimpleNamespace(stderr=io.StringIO(), modules=found.modules)
    monkeypatch.setattr("pilum.progress_display.sys", system)
    monkeypatch.delenv("PILUM_PROGRESS", raising=False)
    return found


def test_nothing_of_a_bar_stays_in_a_notebook(cell: _Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    with progress("Writing", 10) as advance:
        advance(10)
    assert not cell.outputs  # it took less than half a second
    monkeypatch.setattr("pilum.progress_display._DELAY_SECONDS", 0)
    monkeypatch.setattr("pilum.progress_notebook._INTERVAL_SECONDS", 0)
    with progress("Writing <b>", 10) as advance, progress("Within", None) as inner:
        advance(4)
        inner(1)
        advance(6)
    for words in ("Writing &lt;b&gt;", "10/10", "Within"):
        assert words in cell.seen
    assert list(cell.outputs.values()) == [{}]


@pytest.mark.parametrize("total", [10, 0, None])
def test_nothing_is_shown_elsewhere(monkeypatch: pytest.MonkeyPatch, total: int | None) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("pilum.progress_display._DELAY_SECONDS", 0)
    with progress("Compacting", total) as advance:
        advance(4)
    assert stream.getvalue() == ""


@pytest.mark.parametrize("stream", [None, SimpleNamespace()])
def test_nothing_is_shown_without_a_stream(monkeypatch: pytest.MonkeyPatch, stream: object) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("pilum.progress_display._DELAY_SECONDS", 0)
    with progress("Compacting", 10) as advance:
        advance(4)


def test_it_can_be_switched_off(terminal: _Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILUM_PROGRESS", "0")
    with progress("Compacting", 10) as advance:
        advance(4)
    assert terminal.getvalue() == ""


def test_short_operations_show_nothing(
    terminal: _Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilum.progress_display._DELAY_SECONDS", 1e9)
    with progress("Compacting", 10) as advance:
        advance(4)
    assert terminal.getvalue() == ""


def test_batches_are_counted_after_their_use() -> None:
    seen: list[int] = []
    for batch in counted(
        [pa.record_batch({"a": [1, 2]}), pa.record_batch({"a": [3]})], seen.append
    ):
        seen.append(-batch.num_rows)  # noqa: PERF401
    assert seen == [-2, 2, -1, 1]


ROWS = pa.table({"id": range(1000), "b": range(1000)})


def _write(uri: str) -> None:
    pilum.write_dataset(ROWS, uri, mode="append")


def _merge(uri: str) -> None:
    merge = pilum.dataset(uri).merge_insert("id").when_matched_update_all()
    merge.when_not_matched_insert_all().execute(ROWS)


def _update(uri: str) -> None:
    pilum.dataset(uri).update({"b": "b + 1"})


def _add_columns(uri: str) -> None:
    pilum.dataset(uri).add_columns({"c": "b + 1"})


def _compact(uri: str) -> None:
    pilum.dataset(uri).optimize.compact_files()


def _index(uri: str) -> None:
    pilum.dataset(uri).create_scalar_index("id", "BTREE")


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (_write, ["Writing", "1000/1000"]),
        (_merge, ["Matching", "Writing"]),
        (_update, ["Writing"]),
        (_add_columns, ["Adding columns", "2000/2000"]),
        (_compact, ["Compacting", "2000/2000"]),
        (_index, ["Indexing", "2000/2000"]),
    ],
)
def test_long_operations_show_their_progress(
    terminal: _Terminal, tmp_path: Path, operation: Callable[[str], None], words: list[str]
) -> None:
    uri = str(tmp_path / "table")
    for part in (ROWS, ROWS.set_column(0, "id", pa.array(range(1000, 2000)))):
        pilum.write_dataset(part, uri, mode="append")
    terminal.truncate(0)
    operation(uri)
    for word in words:
        assert word in terminal.getvalue()


_WRITER = """
import sys, time
import pyarrow as pa
import pilum

def batches():
    for number in range(10**9):
        yield pa.record_batch({"a": pa.array(range(10_000))})
        if number == 30:
            print("started", flush=True)
        time.sleep(0.001)

pilum.write_dataset(batches(), sys.argv[1], mode="append", max_rows_per_file=100_000)
"""


def _files(folder: Path) -> Iterator[str]:
    return (str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())


@pytest.mark.parametrize("exists", [True, False])
def test_an_interrupted_write_leaves_nothing(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "table"
    if exists:
        pilum.write_dataset(pa.table({"a": [1]}), folder)
    before = sorted(_files(folder))
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        assert ran.stdout.readline() == b"started\n"
        ran.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in ran.stderr.read()
    assert ran.returncode != 0
    assert sorted(_files(folder)) == before
    if exists:
        assert pilum.dataset(folder).latest_version == 1
