"""Cells of the matrix that end otherwise than their plain cell, with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from matrix.axes import SETTINGS
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


def _is_marked(cell: Cell) -> bool:
    """Whether items of lists have metadata."""
    return bool(SETTINGS[cell.run.settings])


DEVIATIONS = [
    Deviation(
        "the reader of 0.1 forgets the metadata of items of lists, and then misses them; so with "
        "the files of the reference itself",
        "reference reads",
        "column types must match schema types|terminated before end of stream",
        lambda cell: cell.run.version == "0.1" and "list<" in cell.kind and _is_marked(cell),
    ),
    Deviation(
        "the reference packs structs of fixed width, descriptors of blobs too, in mini-blocks only",
        "reference writes",
        "per-value compression should not be used for fixed-width-only structs",
        lambda cell: cell.kind.startswith(("packed", "blob")) and "fullzip" in cell.run.settings,
    ),
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
    known = bool(plain.who) and ended.who != "values"
    if ended.who.startswith("pilum"):
        known = known and ended.text.startswith(REFUSALS)
    if known or any(_explains(deviation, cell, ended) for deviation in DEVIATIONS):
        return ""
    return f"{ended.who}: {ended.text} (plain: {plain.who or 'ok'})"


def _explains(deviation: Deviation, cell: Cell, ended: Ended) -> bool:
    return (
        deviation.who == ended.who
        and deviation.applies(cell)
        and re.search(deviation.text, ended.text) is not None
    )
