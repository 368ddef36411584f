"""Describe plans as text, in the form of the reference.

ScalarIndexQuery: query=AND([a = 5]@a_idx(BTree),NOT([b IS NULL]@b_idx(Bitmap)))
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.types as pt

from pilum.arrays import python_value
from pilum.index.queries import (
    Between,
    HasAll,
    HasAny,
    HasTexts,
    HasWords,
    InBox,
    IsIn,
    IsNull,
    StartsWith,
)
from pilum.table.indices.conditions import Ask, Indexed
from pilum.table.indices.open_segments import OpenSegment
from pilum.table.indices.plans import Asked, Connected, Negated, NeverNull, Plan
from pilum.table.read.selection import Selection
from pilum.table.read.snapshot import Snapshot

__all__ = ["described_coverage", "described_plan", "described_search"]

_MOST_VALUES = 20


def described_plan(plan: Plan) -> str:
    """Return the queries of a plan, with the name and type of the index of each."""
    match plan:
        case Asked(ask=ask, indices=[index, *_]):
            kind = index.segments[0].segment.entry.kind
            return f"[{_query(ask)}]@{index.name}({kind})"
        case Connected(parts=parts, is_all=is_all):
            text = described_plan(parts[0])
            for part in parts[1:]:
                text = f"{'AND' if is_all else 'OR'}({text},{described_plan(part)})"
            return text
        case Negated(part=part):
            return f"NOT({described_plan(part)})"
        case NeverNull(part=part):
            return described_plan(part)
    raise AssertionError(plan)


def described_coverage(plan: Plan) -> str:
    """Return how many segments a plan searches, and how many fragments these cover."""
    segments = {segment.segment.entry.uuid for segment in _segments(plan)}
    return f"segments={len(segments)}, fragments_covered={len(plan.covered)}"


def described_search(snapshot: Snapshot, plan: Plan) -> str:
    """Search the indices and return how many rows are left to look at, and how many are not."""
    found = plan.search()
    if found is None:
        return ", nothing found"
    selection = Selection(found.covered, found.answer.rows, found.answer.is_exact)
    fragments = [snapshot.manifest.fragments.find(number) for number in found.covered]
    num_rows = [one.physical_rows for one in fragments if one is not None]
    looked_at = sum(
        len(selection.rows_of(number, 0, rows))
        for number, rows in zip(found.covered, num_rows, strict=True)
    )
    skipped = sum(num_rows) - looked_at
    tested = "exact" if selection.is_exact else "tested again"
    return f", rows_looked_at={looked_at}, rows_skipped={skipped}, {tested}"


def _segments(plan: Plan) -> Iterator[OpenSegment]:
    match plan:
        case Asked(indices=[index, *_]):
            yield from index.segments
        case Connected(parts=parts):
            for part in parts:
                yield from _segments(part)
        case Negated(part=part) | NeverNull(part=part):
            yield from _segments(part)


def _query(ask: Ask) -> str:
    name, query = _column(ask.indexed), ask.query
    match query:
        case IsIn(values=values):
            one = len(values) == 1
            return f"{name} = {_value(values[0])}" if one else f"{name} IN {_values(values)}"
        case Between(low=low, high=high, includes_low=first, includes_high=last):
            ends = []
            if low is not None:
                ends.append(f"{name} {'>=' if first else '>'} {_value(low)}")
            if high is not None:
                ends.append(f"{name} {'<=' if last else '<'} {_value(high)}")
            return " && ".join(ends)
        case IsNull():
            return f"{name} IS NULL"
        case StartsWith(prefix=prefix):
            return f"starts_with({name}, {prefix!r})"
        case HasWords(words=words):
            return f"contains_tokens({name}, {' '.join(words)!r})"
        case HasTexts(texts=texts):
            return " && ".join(f"contains({name}, {text!r})" for text in texts)
        case InBox(ends=ends):
            return f"{name} in the box {', '.join(map(repr, ends))}"
        case HasAny(values=values):
            return f"array_has_any({name}, {_values(values)})"
        case HasAll(values=values):
            return f"array_has_all({name}, {_values(values)})"
    return f"{type(query).__name__}({name})"


def _column(indexed: Indexed) -> str:
    name = ".".join(indexed.path)
    return name if indexed.json_path is None else f"{name}->{indexed.json_path}"


def _values(values: pa.Array) -> str:
    shown = ",".join(map(_value, values[:_MOST_VALUES]))
    return f"[{shown}]" if len(values) <= _MOST_VALUES else f"[{shown},… {len(values)} values]"


def _value(value: pa.Scalar) -> str:
    is_text = pt.is_string(value.type) or pt.is_large_string(value.type)
    return repr(value.as_py()) if is_text else str(python_value(value))
