"""Progress of long work is shown in terminals, and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from pilum.progress import progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_is_shown_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress("Compacting", 10) as advance:
        advance(4)
        advance(6)
    assert "Compacting" in terminal.getvalue()
    assert "10/10" in terminal.getvalue()


@pytest.mark.parametrize(("terminal", "total"), [(io.StringIO(), 10), (_Terminal(), 0)])
def test_nothing_is_shown_elsewhere(
    monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO, total: int
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("Compacting", total) as advance:
        advance(4)
    assert terminal.getvalue() == ""
