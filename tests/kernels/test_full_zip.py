"""Full-zip entries, written and read, against their twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.chunks import NO_LEVELS, as_bytes
from kernels.test_levels import columns, rebuilt, u16

from pilum.errors import CorruptFileError
from pilum.kernels import FullZip, FullZipWriter, Plan, reference
from pilum.kernels.reference import Entry

WIDE = (0, 1, 8, 9)


class Column:
    """Levels of a column, with control words as wide as wanted."""

    def __init__(self, column: tuple[str, list[Any]], wider: int = 0) -> None:
        self.nesting, self.rows = nesting, rows = column
        self.codes = reference.layer_codes(rows, nesting)
        self.entries = reference.entries_of(rows, self.codes)
        self.rep = u16([entry.rep for entry in self.entries])
        self.def_ = u16([entry.def_ for entry in self.entries])
        self.max_rep = nesting.count("l")
        levels = reference.layer_levels(self.codes)
        self.bits_rep = self.max_rep.bit_length()
        max_def = max(max(layer.null, layer.empty) for layer in levels)
        self.bits_def = max_def.bit_length() + wider
        self.visible = reference.max_visible(self.codes)

    @property
    def owners(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.def_ <= self.visible]

    @property
    def writer(self) -> FullZipWriter:
        return FullZipWriter(
            bits_rep=self.bits_rep,
            bits_def=self.bits_def,
            max_rep=self.max_rep,
            max_visible=self.visible,
            num_entries=len(self.entries),
        )

    def starts(self, sizes: list[int]) -> list[int]:
        """Where rows start, by the size of each entry."""
        ends: list[int] = np.cumsum([0, *sizes]).tolist()
        first = [e.rep == self.max_rep for e in self.entries]
        return [at for at, is_start in zip(ends, first, strict=False) if is_start] + ends[-1:]

    def decode(self, plan: Plan, data: bytes, ranges: list[tuple[int, int]] | None = None) -> Any:
        spans = np.array([(0, len(data))] if ranges is None else ranges, np.int64).reshape(-1, 2)
        page = FullZip(plan, bytes(self.codes), self.bits_rep, self.bits_def)
        return page.decode(as_bytes(data), spans)


def control_bytes(bits: int) -> int:
    return 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4


def text(value: Any) -> bytes:
    return b"" if value is None else b"*" * value


@given(columns, st.sampled_from(WIDE), st.integers(1, 20))
@pytest.mark.checklist("S4.2")
def test_values_of_fixed_width(column: Any, wider: int, width: int) -> None:
    made = Column(column, wider)
    values = [bytes([entry.value or 0]) * width for entry in made.owners]
    parts = [(as_bytes(b"".join(values)), width)]
    data, starts = made.writer.encode_fixed(parts, made.rep, made.def_)
    found = (
        reference.full_zip_entries(
            data.tobytes(), made.bits_rep, made.bits_def, made.visible, value_bytes=width
        )
        if made.bits_rep + made.bits_def
        else [Entry(0, 0, value) for value in values]
    )
    assert [(e.rep, e.def_) for e in found] == [(e.rep, e.def_) for e in made.entries]
    assert [e.value for e in found if e.def_ == 0] == [
        bytes([e.value]) * width for e in made.entries if e.def_ == 0
    ]
    control = control_bytes(made.bits_rep + made.bits_def)
    sizes = [control + width * (e.def_ <= made.visible) for e in made.entries]
    if made.bits_rep:
        assert starts.tolist() == made.starts(sizes)
    buffers, count, layers = made.decode(Plan.flat(8 * width), data.tobytes())
    assert count == len(values)
    assert buffers[0].tobytes() == b"".join(values)
    assert rebuilt(layers, made.nesting, [e.value for e in made.owners]) == made.rows


@given(columns, st.sampled_from(WIDE), st.sampled_from([32, 64]), st.data())
@pytest.mark.checklist("S4.2")
def test_strings(column: Any, wider: int, bits: int, data: st.DataObject) -> None:
    made = Column(column, wider)
    strings = [text(entry.value) for entry in made.owners]
    kind = np.int32 if bits == 32 else np.int64
    offsets: Any = np.cumsum([0, *map(len, strings)]).astype(kind)
    zipped, starts = made.writer.encode_strings(
        offsets, as_bytes(b"".join(strings)), made.rep, made.def_
    )
    found = reference.full_zip_entries(
        zipped.tobytes(), made.bits_rep, made.bits_def, made.visible, length_bytes=bits // 8
    )
    expected = [Entry(e.rep, e.def_, text(e.value) if e.def_ == 0 else None) for e in made.entries]
    assert found == expected
    control = control_bytes(made.bits_rep + made.bits_def)
    sizes = [control + (bits // 8 + len(text(e.value))) * (e.def_ == 0) for e in made.entries]
    assert starts.tolist() == made.starts(sizes)
    # Some rows, by the index.
    picked = sorted(data.draw(st.sets(st.integers(0, len(made.rows) - 1))))
    ranges = [(int(starts[row]), int(starts[row + 1] - starts[row])) for row in picked]
    buffers, count, layers = made.decode(Plan.variable(bits), zipped.tobytes(), ranges)
    assert count + 1 == len(buffers[0])
    values = [
        None if end == start else end - start
        for start, end in zip(buffers[0][:-1].tolist(), buffers[0][1:].tolist(), strict=True)
    ]
    as_read = rebuilt(layers, made.nesting, [0 if v is None else v for v in values])
    assert as_read == [made.rows[row] for row in picked]


@pytest.mark.parametrize("nesting", ["", "l", "ll"])
def test_cut_entries_are_corrupt_or_fewer(nesting: str) -> None:
    leaf: list[Any] = [3, None, 0, 5]
    rows: list[Any] = {"": leaf, "l": [leaf, [], None, [1]], "ll": [[leaf, []], None, [[2]]]}[
        nesting
    ]
    made = Column((nesting, rows))
    strings = [text(entry.value) for entry in made.owners]
    offsets = np.cumsum([0, *map(len, strings)]).astype(np.int32)
    data, _ = made.writer.encode_strings(offsets, as_bytes(b"".join(strings)), made.rep, made.def_)
    whole = reference.full_zip_entries(data.tobytes(), made.bits_rep, made.bits_def, made.visible)
    for cut in range(len(data)):
        try:
            _, _, layers = made.decode(Plan.variable(32), data[:cut].tobytes())
        except CorruptFileError:
            continue
        # The cut is between two entries; fewer rows are found than the page has, or the same.
        known = reference.full_zip_entries(
            data[:cut].tobytes(), made.bits_rep, made.bits_def, made.visible
        )
        assert known == whole[: len(known)]
        assert layers[-1][0] <= len(rows)


@given(st.binary(max_size=60), st.integers(0, 16), st.integers(0, 16), st.sampled_from([32, 64]))
def test_noise_is_corrupt_or_decodes(data: bytes, bits_rep: int, bits_def: int, bits: int) -> None:
    codes = bytes([3, 6]) if bits_rep else bytes([3])
    spans = np.array([[0, len(data)]], np.int64)
    for plan in (Plan.variable(bits), Plan.flat(bits), Plan.general("lz4", Plan.variable(bits))):
        try:
            FullZip(plan, codes, bits_rep, bits_def).decode(as_bytes(data), spans)
        except CorruptFileError:
            continue


def test_rows_outside_of_the_data_are_corrupt() -> None:
    made = Column(("l", [[1], [2]]))
    for spans in ([(0, 100)], [(5, 1)], [(2**62, 2**62)]):
        with pytest.raises(CorruptFileError):
            made.decode(Plan.flat(8), b"\1\1\1\2", spans)


def test_values_without_bytes_are_corrupt() -> None:
    spans = np.array([[0, 4]], np.int64)
    with pytest.raises(CorruptFileError):
        FullZip(Plan.flat(1), b"\1", 0, 0).decode(as_bytes(bytes(4)), spans)
    with pytest.raises(CorruptFileError):
        FullZip(Plan.rle(32), b"\1", 0, 0).decode(as_bytes(bytes(4)), spans)


@pytest.mark.checklist("S4.8")
def test_bitmaps_of_items_stand_before_them() -> None:
    # Two lists of 9 items of 8 bits: 2 bytes of validity, then 9 bytes.
    data = b"\xff\1" + b"abcdefghi" + b"\xfe\0" + b"123456789"
    plan = Plan.fixed_size_list([9], 72)
    spans = np.array([[0, 22]], np.int64)
    made: Any = FullZip(plan, b"\1", 0, 0).decode(as_bytes(data), spans)
    [mask, items], count, _ = made
    assert count == 2
    assert items.tobytes() == b"abcdefghi123456789"
    bits = np.unpackbits(mask, bitorder="little")[:18].tolist()
    assert bits == [1] * 9 + [0] + [1] * 7 + [0]


@pytest.mark.checklist("S4.2")
def test_no_levels_no_control_words() -> None:
    writer = FullZipWriter(bits_rep=0, bits_def=0, max_rep=0, max_visible=0, num_entries=2)
    data, _ = writer.encode_fixed([(as_bytes(b"abcd"), 2)], NO_LEVELS, NO_LEVELS)
    assert data.tobytes() == b"abcd"
