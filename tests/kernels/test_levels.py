"""Levels and back: ravel, unravel and the repetition index against the walk over Python lists."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.chunks import NO_LEVELS

from pilum import kernels
from pilum.errors import CorruptFileError
from pilum.kernels import Block, Coding, MiniBlockWriter, PageValues, reference
from pilum.kernels.reference import Entry

# Rows, layers (inner-most first), repetition and definition, as the notes on the format have them.
EXAMPLES: dict[str, tuple[list[Any], str, list[int], list[int], list[int]]] = {
    "lists with nulls and empties": (
        [[1, 2, 3], [], None, [4, None], [5]],
        "l",
        [3, 6],
        [1, 0, 0, 1, 1, 1, 0, 1],
        [0, 0, 0, 3, 2, 0, 1, 0],
    ),
    "lists of lists": (
        [[[0, 1], [], [2]], [[3]], [], None, [None, [4, None]]],
        "ll",
        [3, 6, 6],
        [2, 0, 1, 1, 2, 2, 2, 2, 1, 0],
        [0, 0, 3, 0, 0, 5, 4, 2, 0, 1],
    ),
    "a struct with a null member": (
        [(1,), None, (None,), (3,)],
        "s",
        [3, 3],
        [0, 0, 0, 0],
        [0, 2, 1, 0],
    ),
    "a struct in a struct": (
        [((1,),), None, (None,), ((None,),)],
        "ss",
        [3, 3, 3],
        [0, 0, 0, 0],
        [0, 3, 2, 1],
    ),
    "lists of structs of lists": (
        [[([1, 2],), None, (None,), ([],)], [], None, [([None, 3],)]],
        "lsl",
        [3, 6, 3, 6],
        [2, 0, 1, 1, 1, 2, 2, 2, 0],
        [0, 0, 4, 2, 3, 6, 5, 1, 0],
    ),
    "their sibling leaf": (
        [[("a",), None, ("b",), (None,)], [], None, [("c",)]],
        "ls",
        [3, 3, 6],
        [1, 0, 0, 0, 1, 1, 1],
        [0, 2, 0, 1, 4, 3, 0],
    ),
}


def slots(nesting: str) -> st.SearchStrategy[Any]:
    """Slots of a column below these lists and structs, nulls and empty lists at every depth."""
    if not nesting:
        return st.integers(0, 9) | st.none()
    below = slots(nesting[1:])
    made: st.SearchStrategy[Any] = (
        st.lists(below, max_size=4) if nesting[0] == "l" else st.tuples(below)
    )
    return made | st.none()


columns = st.sampled_from(
    ["", "l", "s", "ll", "ls", "sl", "ss", "lsl", "sls", "lll", "llsl"]
).flatmap(
    lambda nesting: st.tuples(st.just(nesting), st.lists(slots(nesting), min_size=1, max_size=12))
)


def arrow_type(nesting: str) -> pa.DataType:
    if not nesting:
        return pa.int8()
    below = arrow_type(nesting[1:])
    return pa.list_(below) if nesting[0] == "l" else pa.struct([("m", below)])


def as_arrow(rows: list[Any], nesting: str) -> pa.Array:
    def convert(slot: Any, rest: str) -> Any:
        if slot is None or not rest:
            return slot
        below = [convert(item, rest[1:]) for item in slot]
        return below if rest[0] == "l" else {"m": below[0]}

    return pa.array([convert(row, nesting) for row in rows], arrow_type(nesting))


def rebuilt(layers: list[Any], nesting: str, values: list[Any]) -> list[Any]:
    """Rows of what `unravel` gives, values in entry order."""
    (length, validity, _, _), *outer = layers
    made = [v if ok else None for v, ok in zip(values, valid_of(validity, length), strict=True)]
    for kind, (length, validity, nulls, offsets) in zip(reversed(nesting), outer, strict=True):
        valid = valid_of(validity, length)
        assert nulls == valid.count(False)
        parts: list[Any]
        if kind == "l":
            parts = [made[a:b] for a, b in itertools.pairwise(offsets)]
        else:
            parts = [(item,) for item in made]
        made = [part if ok else None for part, ok in zip(parts, valid, strict=True)]
    return made


def valid_of(bitmap: Any, length: int) -> list[bool]:
    if bitmap is None:
        return [True] * length
    return [bool(bit) for bit in np.unpackbits(bitmap, count=length, bitorder="little")]


def u16(levels: list[int]) -> Any:
    return np.array(levels, dtype=np.uint16) if any(levels) else NO_LEVELS


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.checklist("S4.5")
def test_examples_of_the_format(name: str) -> None:
    rows, nesting, codes, rep, def_ = EXAMPLES[name]
    assert reference.layer_codes(rows, nesting) == codes
    entries = reference.entries_of(rows, codes)
    assert [(entry.rep, entry.def_) for entry in entries] == list(zip(rep, def_, strict=True))
    assert reference.rows_of(entries, codes) == rows
    layers = kernels.unravel(bytes(codes), u16(rep), u16(def_), len(rep))
    values = [e.value for e in entries if e.def_ <= reference.max_visible(codes)]
    assert rebuilt(layers, nesting, values) == rows


@given(columns)
@pytest.mark.checklist("S4.5")
def test_the_twins_agree_with_each_other(column: tuple[str, list[Any]]) -> None:
    nesting, rows = column
    codes = reference.layer_codes(rows, nesting)
    assert reference.rows_of(reference.entries_of(rows, codes), codes) == rows


@given(columns)
@pytest.mark.checklist("S4.5")
def test_unravel_agrees_with_its_twin(column: tuple[str, list[Any]]) -> None:
    nesting, rows = column
    codes = reference.layer_codes(rows, nesting)
    entries = reference.entries_of(rows, codes)
    rep, def_ = ([getattr(entry, name) for entry in entries] for name in ("rep", "def_"))
    values = [e.value for e in entries if e.def_ <= reference.max_visible(codes)]
    layers = kernels.unravel(bytes(codes), u16(rep), u16(def_), len(entries))
    assert rebuilt(layers, nesting, values) == rows


@given(columns, st.integers(0, 5))
def test_layers_may_be_nullable_without_nulls(column: tuple[str, list[Any]], which: int) -> None:
    # The reference reserves levels that no entry uses; the meaning of the others moves.
    nesting, rows = column
    codes = reference.layer_codes(rows, nesting)
    which %= len(codes)
    codes[which] = 6 if codes[which] in (2, 4, 5, 6) else 3
    entries = reference.entries_of(rows, codes)
    rep, def_ = ([getattr(entry, name) for entry in entries] for name in ("rep", "def_"))
    values = [e.value for e in entries if e.def_ <= reference.max_visible(codes)]
    layers = kernels.unravel(bytes(codes), u16(rep), u16(def_), len(entries))
    assert rebuilt(layers, nesting, values) == rows


@given(
    st.lists(st.sampled_from([1, 2, 3, 4, 5, 6]), max_size=4).map(lambda outer: [3, *outer]),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 12)), min_size=1, max_size=40),
)
def test_any_levels_make_layers_that_fit_or_are_refused(
    codes: list[int], pairs: list[tuple[int, int]]
) -> None:
    rep, def_ = (np.array(levels, np.uint16) for levels in zip(*pairs, strict=True))
    try:
        layers = kernels.unravel(bytes(codes), rep, def_, len(pairs))
    except CorruptFileError:
        return
    for length, validity, nulls, offsets in layers:
        assert validity is None or len(validity) == (length + 7) // 8
        assert 0 <= nulls <= length
        if offsets is not None:
            assert len(offsets) == length + 1
            assert (np.diff(offsets) >= 0).all()


@pytest.mark.parametrize(("rep", "def_"), [([1], [0, 0]), ([1, 0, 0], [0, 0]), ([1, 0], [0])])
def test_uneven_levels_are_corrupt(rep: list[int], def_: list[int]) -> None:
    with pytest.raises(CorruptFileError):
        kernels.unravel(bytes([3, 6]), np.array(rep, np.uint16), np.array(def_, np.uint16), 2)


def test_lists_without_repetition_levels_are_corrupt() -> None:
    with pytest.raises(CorruptFileError):
        kernels.unravel(bytes([1, 2]), NO_LEVELS, NO_LEVELS, 3)


@pytest.mark.parametrize("codes", [[0], [7], [1, 255]])
def test_layers_that_do_not_exist_are_corrupt(codes: list[int]) -> None:
    with pytest.raises(CorruptFileError):
        kernels.unravel(bytes(codes), NO_LEVELS, NO_LEVELS, 1)


def test_entries_print_and_compare() -> None:
    assert Entry(1, 0, 5) == Entry(1, 0, 5) != Entry(1, 1)


@given(st.lists(st.lists(st.integers(0, 3), max_size=7), min_size=1, max_size=60), st.data())
@pytest.mark.checklist("S4.1")
def test_the_repetition_index(rows: list[list[int]], data: st.DataObject) -> None:
    # Many values a chunk need would be slow; two-value chunks come from huge fixed-width values.
    codes = reference.layer_codes(rows, "l")
    entries = reference.entries_of(rows, codes)
    rep, def_ = u16([e.rep for e in entries]), u16([e.def_ for e in entries])
    values = [v for row in rows for v in row]
    if not values:
        return
    width = data.draw(st.sampled_from([1500, 4000]))  # 4 or 2 values a chunk
    words, chunks, index = MiniBlockWriter(
        Coding.PLAIN,
        rep=Block.flat(16),
        def_=Block.flat(16) if len(def_) else None,
        max_rep=1,
    ).encode(
        PageValues.fixed(
            np.frombuffer(b"".join(bytes([v]) * width for v in values), np.uint8),
            len(values),
            8 * width,
        ),
        rep,
        def_,
    )
    stored, at = [], 0
    for word in words.view("<u2").tolist():
        size = ((word >> 4) + 1) * 8
        _, [levels, *_] = reference.chunk_parts(
            chunks[at : at + size].tobytes(), has_rep=True, has_def=len(def_) > 0, num_buffers=1
        )
        stored.append(np.frombuffer(levels, "<u2").tolist())
        at += size
    assert [level for chunk in stored for level in chunk] == [e.rep for e in entries]
    found = [(int(ends), int(left)) for ends, left in index.view("<u8").reshape(-1, 2)]
    assert found == reference.repetition_index(stored, 1)
    assert sum(ends for ends, _ in found) == len(rows)


@given(st.lists(st.tuples(st.integers(0, 70), st.booleans()), max_size=40), st.integers(0, 9))
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_items_that_no_list_shows(kind: Any, lists: list[tuple[int, bool]], first: int) -> None:
    offsets = [first + sum(n for n, _ in lists[:i]) for i in range(len(lists) + 1)]
    alive = [lives for _, lives in lists]
    ends, has_empty, wanted = kernels.shown_offsets(
        np.array(offsets, kind), np.array(alive, np.uint8)
    )
    left = None if wanted is None else valid_of(wanted, offsets[-1] - first)
    assert (ends.tolist(), has_empty, left) == reference.shown_offsets(offsets, alive)
    ends, has_empty, wanted = kernels.shown_offsets(np.array(offsets, kind), None)
    left = None if wanted is None else valid_of(wanted, offsets[-1] - first)
    assert (ends.tolist(), has_empty, left) == reference.shown_offsets(offsets, [True] * len(lists))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=300), st.integers(1, 40))
def test_entries_of_neighbouring_values(levels: list[int], values: int) -> None:
    if 0 not in levels and 1 not in levels:
        levels[-1] = 1
    def_ = np.array(levels, np.uint16)
    assert kernels.most_entries(def_, 1, values) == reference.most_entries(levels, 1, values)


def test_lists_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="descend"):
        kernels.shown_offsets(np.array([0, 3, 2], np.int32), None)
    with pytest.raises(ValueError, match="lists"):
        kernels.shown_offsets(np.array([0, 3], np.int32), np.ones(2, np.uint8))
