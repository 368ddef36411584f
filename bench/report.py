"""The results for eyes (ratios: how many times our time the peer needs) and for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.machine import summary
from bench.peers import Peer
from bench.rounds import Cell, Settings

__all__ = ["document_of", "print_report", "write_text"]

Cells = dict[tuple[str, str], Cell]  # (shape, peer) → cell, of one question


def print_report(cells: Sequence[Cell], peers: Sequence[Peer], console: Console) -> None:
    """Prints one table per question; the first peer is the one that the others are held against."""
    for version in dict.fromkeys(cell.file_version for cell in cells):
        of_version = [cell for cell in cells if cell.file_version == version]
        names = list(dict.fromkeys(cell.peer for cell in of_version))
        names.sort(key=[peer.name for peer in peers].index)
        for question in dict.fromkeys(cell.question for cell in of_version):
            of_question = {(c.shape, c.peer): c for c in of_version if c.question == question}
            console.print(_table(f"{question}, file version {version}", of_question, names))
    problems = dict.fromkeys(
        f"{c.peer} {c.file_version}, {c.shape}: {c.problem}" for c in cells if c.problem
    )
    for problem in problems:
        console.print(f"[yellow]not measured:[/] {problem}", highlight=False)
    for peer in peers:
        console.print(f"{peer.name} {peer.version}: {peer.settings}", highlight=False)


def _table(question: str, cells: Cells, peers: list[str]) -> Table:
    base, *others = peers
    table = Table(title=question, title_justify="left", title_style="bold")
    table.add_column("column")
    table.add_column(base, justify="right")
    for other in others:
        table.add_column(other, justify="right")
        table.add_column(f"÷ {base}", justify="right")
    ratios: dict[str, list[float]] = {other: [] for other in others}
    for shape in dict.fromkeys(shape for shape, _ in cells):
        ours = cells[shape, base]
        row = [shape, _quantity(ours)]
        for other in others:
            theirs = cells[shape, other]
            ratio = _ratio(theirs, ours)
            if ratio is not None:
                ratios[other].append(ratio)
            row += [_quantity(theirs), _coloured(ratio)]
        table.add_row(*row)
    table.add_section()
    row = ["geometric mean", ""]
    for other in others:
        row += ["", _coloured(_geometric_mean(ratios[other]))]
    table.add_row(*row)
    return table


def _ratio(theirs: Cell, ours: Cell) -> float | None:
    if theirs.median is None or not ours.median:
        return None
    return theirs.median / ours.median


def _geometric_mean(ratios: list[float]) -> float | None:
    positive = [ratio for ratio in ratios if ratio > 0]
    return math.exp(sum(map(math.log, positive)) / len(positive)) if positive else None


def _coloured(ratio: float | None) -> str:
    if ratio is None:
        return "–"
    colour = "green" if ratio >= 1.1 else "red" if ratio <= 0.9 else "default"
    return f"[{colour}]{ratio:.2f}[/]"


def _quantity(cell: Cell) -> str:
    if cell.median is None:
        return "–"
    if cell.unit == "s":
        return f"{cell.median * 1e3:,.2f} ms"
    return f"{cell.median / 1e6:,.2f} MB"


def document_of(cells: Sequence[Cell], peers: Sequence[Peer], settings: Settings) -> dict[str, Any]:
    """Everything, samples included, as JSON has it."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": summary(),
        "settings": asdict(settings),
        "peers": {
            peer.name: {"version": peer.version, "settings": peer.settings} for peer in peers
        },
        "cells": [{**asdict(cell), "median": cell.median, "first": cell.first} for cell in cells],
    }


def write_text(path: Path, text: str) -> None:
    """Writes a file, in folders that need not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
