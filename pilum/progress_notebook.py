"""Bars of progress in the output of a notebook's cell, of which nothing stays.

    display    the bars as HTML, with an id
    update     other bars in their place; at the end, nothing

Rich's own display for notebooks would leave a closed widget and an empty paragraph in each cell.
"""

from __future__ import annotations

import io
import time
from typing import Any, Protocol

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TaskID

__all__ = ["NotebookProgress", "Publish"]

_WIDTH = 100
_INTERVAL_SECONDS = 0.1
"""The least time between two displays."""
_PARAGRAPH = (
    '<pre style="white-space:pre;overflow-x:auto;line-height:normal;'
    "font-family:Menlo,'DejaVu Sans Mono',consolas,'Courier New',monospace\">{code}</pre>"
)


class Publish(Protocol):
    """The function `IPython.display.publish_display_data`."""

    def __call__(
        self, data: dict[str, str], *, transient: dict[str, str], update: bool = False
    ) -> None:
        """Display data with an id, or in the place of what was displayed with it."""


class NotebookProgress(Progress):
    """Bars that are published as HTML.

    Args:
        columns: The parts of a bar.
        publish: Shows data in the cell that is executed.
    """

    def __init__(self, *columns: ProgressColumn, publish: Publish) -> None:
        super().__init__(*columns, console=_paper(), auto_refresh=False)
        self._publish = publish
        self._place = {"display_id": f"pilum-progress-{id(self)}-{time.time_ns()}"}
        self._is_shown = False
        self._shown_at = 0.0

    def start(self) -> None:
        """Do nothing: the first bar is shown when it is added."""

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Change a bar, and show it unless the bars were shown just before."""
        super().update(task_id, **changes)
        if time.monotonic() - self._shown_at >= _INTERVAL_SECONDS:
            self.refresh()

    def refresh(self) -> None:
        """Show the bars."""
        paper = _paper()
        paper.print(self.get_renderable())
        text = paper.export_text(clear=False)
        page = paper.export_html(inline_styles=True, code_format=_PARAGRAPH)
        self._show({"text/plain": text, "text/html": page})

    def stop(self) -> None:
        """Remove the bars."""
        if self._is_shown:
            self._show({})

    def _show(self, data: dict[str, str]) -> None:
        self._publish(data, transient=self._place, update=self._is_shown)
        self._is_shown = True
        self._shown_at = time.monotonic()


def _paper() -> Console:
    """Return a console that keeps what is printed."""
    return Console(file=io.StringIO(), record=True, width=_WIDTH, force_jupyter=False)
