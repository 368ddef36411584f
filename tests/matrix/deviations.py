"""Cells of the matrix that end otherwise than their plain cell, with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from matrix.axes import CHANGED
from matrix.record import Record
from matrix.running import Cell, Ended

__all__ = ["DEVIATIONS", "REFUSALS", "unexplained"]


REFUSALS = ("Unsupported", "InvalidInputError")
"""How the names of the errors begin by which this library refuses types and values."""


@dataclass(frozen=True)
class Deviation:
    """A refusal that comes with a shape of values, a size or a setting.

    Attributes:
        why: The reason.
        who: Refuses.
        text: A regular expression that what is said holds.
        applies: To which cells.
    """

    why: str
    who: str
    text: str
    applies: Callable[[Cell], bool]


DEVIATIONS = [
    Deviation(
        "the writer of 2.0 knows FSST for strings with 32-bit offsets only, and fails at others",
        "reference writes",
        "left == right|variable width|RecvError|JoinError",
        lambda cell: cell.run.version == "2.0" and cell.run.settings == "compression=fsst",
    ),
    Deviation(
        "bits of booleans do not fill bytes, which entries side by side need",
        "reference writes",
        "byte aligned|out of range for slice",
        lambda cell: cell.kind == "fixed_size_list<bool>[5]" and "fullzip" in cell.run.settings,
    ),
    Deviation(
        "bits of booleans do not fill bytes, which entries side by side need",
        "pilum writes",
        "booleans that do not fill bytes",
        lambda cell: cell.kind == "fixed_size_list<bool>[5]" and "fullzip" in cell.run.settings,
    ),
]


def unexplained(cell: Cell, ended: Ended, record: Record) -> str:
    """What is wrong with how a cell ended; "" if it is as it should be.

    A column that is refused when it is plain may be refused for another reason, or by another,
    with other values. One that is not may only be refused where a deviation says so.
    """
    if not ended.who:
        return ""
    plain = record.ended(cell)
    if ended.who == "values":
        known = cell.kind in CHANGED
    elif ended.who.startswith("pilum"):
        known = ended.text.startswith(REFUSALS) and bool(plain.who)
    else:
        known = bool(plain.who)
    if known or any(_explains(deviation, cell, ended) for deviation in DEVIATIONS):
        return ""
    return f"{ended.who}: {ended.text} (plain: {plain.who or 'ok'})"


def _explains(deviation: Deviation, cell: Cell, ended: Ended) -> bool:
    return (
        deviation.who == ended.who
        and deviation.applies(cell)
        and re.search(deviation.text, ended.text) is not None
    )
