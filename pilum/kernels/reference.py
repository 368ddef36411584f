"""Naive versions of the kernels: each rule of the format as a loop over Python lists.

Tests compare the kernels with them; no other module imports this one. They are written for sound
input only: the errors that they raise for damaged input have no meaning.

The functions for levels take rows of a leaf column as nested Python data: a list for each list, a
tuple of one member for each struct, the value for the leaf, and None for a null at any depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

__all__ = [
    "ORDER",
    "Entry",
    "LayerLevels",
    "adjusted_entries",
    "bits_of_rows",
    "chunk_parts",
    "chunk_table",
    "chunks_of_rows",
    "entries_of",
    "fsst_decode",
    "full_zip_entries",
    "gather_bits",
    "layer_codes",
    "layer_levels",
    "max_visible",
    "most_entries",
    "pack",
    "packed_index",
    "repetition_index",
    "rle_decode",
    "rows_of",
    "shown_offsets",
    "strings_of_chunk",
    "text_ends",
    "unpack",
    "unpack_linear",
]

ORDER = (0, 4, 2, 6, 1, 5, 3, 7)
"""The order in which bit-packing stores the groups of eight rows of a lane."""
_GROUP = 1024
_LISTS = (2, 4, 5, 6)


def packed_index(row: int, lane: int) -> int:
    """Return which of the 1,024 values is stored in a row of a lane.

    Source: docs/format/encodings-2.1.md, "Bit-packing".
    """
    return 128 * (row % 8) + 16 * ORDER[row // 8] + lane


def pack(values: Sequence[int], bits: int, width: int) -> bytes:
    """Pack 1,024 unsigned values of `bits` bits into `width` bits each.

    Source: docs/format/encodings-2.1.md, "Bit-packing".
    """
    lanes = _GROUP // bits
    words = [0] * (lanes * width)
    for lane in range(lanes):
        # All values of a lane as one long number, whose digits are the words.
        number = sum(values[packed_index(row, lane)] << row * width for row in range(bits))
        for word in range(width):
            words[word * lanes + lane] = number >> word * bits & ((1 << bits) - 1)
    return b"".join(word.to_bytes(bits // 8, "little") for word in words)


def unpack(packed: bytes, bits: int, width: int) -> list[int]:
    """Return the 1,024 values of one packed group.

    Source: docs/format/encodings-2.1.md, "Bit-packing".
    """
    lanes, size = _GROUP // bits, bits // 8
    words = [int.from_bytes(packed[i : i + size], "little") for i in range(0, len(packed), size)]
    values = [0] * _GROUP
    for lane in range(lanes):
        number = sum(words[word * lanes + lane] << word * bits for word in range(width))
        for row in range(bits):
            values[packed_index(row, lane)] = number >> row * width & ((1 << width) - 1)
    return values


def rle_decode(values: bytes, lengths: bytes, width: int, num_values: int) -> bytes:
    """Repeat items of `width` bytes; the last run may overshoot.

    Source: docs/format/encodings-2.1.md, "Run-length encoding".
    """
    items = [values[i : i + width] for i in range(0, len(values), width)]
    out = b"".join(item * length for item, length in zip(items, lengths, strict=True))
    return out[: num_values * width]


def strings_of_chunk(buffer: bytes, width: int, num_values: int) -> list[bytes]:
    """Return the strings after offsets of `width` bytes, which count from the start of the buffer.

    Source: docs/format/encodings-2.1.md, "Variable".
    """
    offsets = [
        int.from_bytes(buffer[i * width : (i + 1) * width], "little") for i in range(num_values + 1)
    ]
    return [buffer[start:end] for start, end in pairwise(offsets)]


def fsst_decode(table: bytes, codes: bytes) -> bytes:
    """Return the string of a sequence of codes.

    Source: docs/format/encodings-2.1.md, "FSST".
    """
    if not table[3] & 1:
        return codes
    count = table[0]
    lengths = table[8 + 8 * count :]
    out, rest = bytearray(), iter(codes)
    for code in rest:
        if code == 255:
            out.append(next(rest))
        else:
            out += table[8 + 8 * code :][: lengths[code]]
    return bytes(out)


class LayerLevels(NamedTuple):
    """The levels of one layer; 0 for a level that it does not have.

    Attributes:
        is_list: Whether it is a list.
        null: Definition of a null.
        empty: Definition of an empty list.
        rep: Repetition of an entry with which a list begins.
    """

    is_list: bool
    null: int
    empty: int
    rep: int


def layer_levels(codes: Sequence[int]) -> list[LayerLevels]:
    """Assign numbers to the levels of layers, inner-most first.

    Source: docs/format/encodings-2.1.md, "Levels".
    """
    levels: list[LayerLevels] = []
    definition = repetition = 0
    for code in codes:
        null = empty = 0
        if code in (3, 4, 6):
            null = definition = definition + 1
        if code in (5, 6):
            empty = definition = definition + 1
        repetition += code in _LISTS
        levels.append(LayerLevels(code in _LISTS, null, empty, repetition))
    return levels


def max_visible(codes: Sequence[int]) -> int:
    """Return the highest definition of an entry that owns a value: the levels below the first list.

    Source: docs/format/encodings-2.1.md, "Levels".
    """
    first = next((i for i, code in enumerate(codes) if code in _LISTS), len(codes))
    return sum(1 for code in codes[:first] if code == 3)


def layer_codes(rows: Sequence[Any], nesting: str) -> list[int]:
    """Return the kinds of the layers of some rows, inner-most first.

    Args:
        rows: See the docstring of the module.
        nesting: "l" or "s" for each list or struct, outer-most first.

    Source: docs/format/encodings-2.1.md, "Levels".
    """
    codes: list[int] = []
    slots: list[Any] = list(rows)
    below_null = False
    for kind in nesting:
        valid = [slot for slot in slots if slot is not None]
        # A null struct is a null of all its members.
        has_null = below_null or len(valid) < len(slots)
        below_null = has_null and kind == "s"
        if kind == "l":
            has_empty = any(len(slot) == 0 for slot in valid)
            codes.append({(0, 0): 2, (1, 0): 4, (0, 1): 5, (1, 1): 6}[has_null, has_empty])
        else:
            codes.append(3 if has_null else 1)
        slots = [item for slot in valid for item in slot]
    codes.append(3 if below_null or any(slot is None for slot in slots) else 1)
    return codes[::-1]


@dataclass(frozen=True)
class Entry:
    """One entry of a leaf column; `value` is None for nulls and for entries without a value."""

    rep: int
    def_: int
    value: Any = None


def entries_of(rows: Sequence[Any], codes: Sequence[int]) -> list[Entry]:
    """Serialise rows to entries.

    Source: docs/format/encodings-2.1.md, "Levels".
    """
    steps = layer_levels(codes)[::-1]
    return [entry for row in rows for entry in _walk(row, steps, 0, 0)]


def _walk(value: Any, steps: Sequence[LayerLevels], rep: int, hidden: int) -> Iterator[Entry]:
    """Yield the entries of one slot; `rep` is pending, `hidden` the level of a null above."""
    step, *below = steps
    is_null = value is None and not hidden
    if step.is_list:
        rep = rep or step.rep
        if hidden or not value:
            yield Entry(rep, hidden or (step.null if is_null else step.empty))
        else:
            yield from _walk(value[0], below, rep, 0)
            for item in value[1:]:
                yield from _walk(item, below, 0, 0)
        return
    hidden = step.null if is_null else hidden
    if below:
        yield from _walk(None if hidden else value[0], below, rep, hidden)
    else:
        yield Entry(rep, hidden, value)


_HIDDEN = object()


def rows_of(entries: Sequence[Entry], codes: Sequence[int]) -> list[Any]:
    """Rebuild rows from the inner-most layer outwards.

    Source: docs/format/encodings-2.1.md, "Levels".
    """
    visible = max_visible(codes)
    slots = [(e.rep, e.def_, e.value if e.def_ <= visible else _HIDDEN) for e in entries]
    settled = 0
    for index, (code, layer) in enumerate(zip(codes, layer_levels(codes), strict=True)):
        if layer.is_list:
            slots = _close_lists(slots, layer, settled)
        else:
            is_struct = index > 0
            slots = [_close_item(slot, layer, settled, is_struct) for slot in slots]
        settled += {1: 0, 2: 0, 6: 2}.get(code, 1)
    return [value for _, _, value in slots]


_Slot = tuple[int, int, Any]


def _close_item(slot: _Slot, layer: LayerLevels, settled: int, is_struct: bool) -> _Slot:
    rep, definition, value = slot
    if layer.null and definition == layer.null:
        return rep, definition, None
    if is_struct and definition <= settled:
        return rep, definition, (value,)
    return slot


def _close_lists(slots: list[_Slot], layer: LayerLevels, settled: int) -> list[_Slot]:
    closed: list[_Slot] = []
    for rep, definition, value in slots:
        if rep == 0:
            closed[-1][2].append(value)
            continue
        if definition <= settled:
            made: Any = [value]
        else:
            made = {layer.null: None, layer.empty: []}.get(definition, _HIDDEN)
        closed.append((rep - 1, definition, made))
    return closed


def full_zip_entries(
    data: bytes,
    bits_rep: int,
    bits_def: int,
    visible: int,
    *,
    value_bytes: int | None = None,
    length_bytes: int = 4,
) -> list[Entry]:
    """Return the entries of a full-zip page: control word, and the value if it owns one.

    Args:
        data: Buffer 0 of the page.
        bits_rep: Width of repetition in the control word.
        bits_def: Width of definition.
        visible: See `max_visible`.
        value_bytes: Width of the values; None if each follows its length.
        length_bytes: Width of that length.

    Source: docs/format/encodings-2.1.md, "Full-zip".
    """
    bits = bits_rep + bits_def
    control = 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4
    entries: list[Entry] = []
    at = 0
    while at < len(data):
        word = int.from_bytes(data[at : at + control], "little")
        rep, definition = word >> bits_def, word & ((1 << bits_def) - 1)
        at += control
        size = 0
        if value_bytes is not None:
            size = value_bytes if definition <= visible else 0
        elif definition == 0:
            size = int.from_bytes(data[at : at + length_bytes], "little")
            at += length_bytes
        entries.append(Entry(rep, definition, data[at : at + size] if definition == 0 else None))
        at += size
    return entries


def chunk_parts(
    chunk: bytes, *, has_rep: bool, has_def: bool, num_buffers: int
) -> tuple[int, list[bytes]]:
    """Split a mini-block chunk into the number of levels and its buffers.

    The buffers are repetition, definition, values ….

    Source: docs/format/encodings-2.1.md, "Mini-block".
    """
    count = 1 + has_rep + has_def + num_buffers
    header = [int.from_bytes(chunk[2 * i : 2 * i + 2], "little") for i in range(count)]
    at, buffers = _padded(2 * count), []
    for size in header[1:]:
        buffers.append(chunk[at : at + size])
        at = _padded(at + size)
    return header[0], buffers


def _padded(size: int) -> int:
    return -(-size // 8) * 8


def repetition_index(chunks: Sequence[Sequence[int]], max_rep: int) -> list[tuple[int, int]]:
    """Return the rows that end in each chunk, and its trailing entries of a row that continues.

    Args:
        chunks: Repetition levels of each chunk.
        max_rep: Repetition of an entry with which a row begins.

    Source: docs/format/encodings-2.1.md, "Mini-block".
    """
    levels = [level for chunk in chunks for level in chunk]
    starts = [at for at, level in enumerate(levels) if level == max_rep]
    ends = [*starts[1:], len(levels)]
    borders = list(accumulate(map(len, chunks)))
    index = []
    for begin, border in pairwise([0, *borders]):
        rows = sum(begin < end <= border for end in ends)
        open_from = max(begin, max(start for start in starts if start < border))
        index.append((rows, 0 if border in ends else border - open_from))
    return index


def shown_offsets(
    offsets: Sequence[int], alive: Sequence[bool]
) -> tuple[list[int], bool, list[bool] | None]:
    """Return the offsets of lists without the items of those that are not alive.

    Also return whether a list that is alive is empty, and which items are left, if not all.
    """
    lengths = [end - start for start, end in pairwise(offsets)]
    shown = [length if lives else 0 for length, lives in zip(lengths, alive, strict=True)]
    wanted = [lives for n, lives in zip(lengths, alive, strict=True) for _ in range(n)]
    has_empty = any(lives and n == 0 for n, lives in zip(lengths, alive, strict=True))
    return [0, *accumulate(shown)], has_empty, None if all(wanted) else wanted


def most_entries(def_: Sequence[int], visible: int, values: int) -> int:
    """Return the most entries that `values` adjacent values take, with those before each value."""
    ends = [index + 1 for index, level in enumerate(def_) if level <= visible]
    ends = [0, *ends[:-1], len(def_)]
    spans = [end - start for start, end in zip(ends, ends[values:], strict=False)]
    return max(spans, default=len(def_))


def chunk_table(
    words: bytes, large: bool, index: Sequence[tuple[int, int]] | None, num_items: int
) -> list[tuple[int, int, int, int, int, bool]]:
    """Return position, bytes, values, first row and rows of each chunk, and whether it continues.

    Args:
        words: The words of the chunks.
        large: Whether a word has 4 bytes.
        index: The repetition index, if the page has lists.
        num_items: Values of the page.

    Source: docs/format/encodings-2.1.md, "Mini-block".
    """
    width = 4 if large else 2
    numbers = [int.from_bytes(words[i : i + width], "little") for i in range(0, len(words), width)]
    sizes = [(number // 16 + 1) * 8 for number in numbers]
    values = [2 ** (number % 16) for number in numbers[:-1]]
    values.append(num_items - sum(values))
    trailers = [False] * len(numbers) if index is None else [rest > 0 for _, rest in index]
    continues = [False, *trailers[:-1]]
    ends = values if index is None else [rows for rows, _ in index]
    rows = [end + t - c for end, t, c in zip(ends, trailers, continues, strict=True)]
    starts, firsts = accumulate(sizes[:-1], initial=0), accumulate(rows[:-1], initial=0)
    return list(zip(starts, sizes, values, firsts, rows, continues, strict=True))


def chunks_of_rows(table: Sequence[Sequence[int]], rows: Sequence[int]) -> list[int]:
    """Return the numbers of the chunks that contain a part of any of some rows.

    Args:
        table: See `chunk_table`.
        rows: Numbers of rows.
    """
    return [
        number
        for number, (_, _, _, first, count, continues) in enumerate(table)
        if any(first - continues <= row < first + count for row in rows)
    ]


def bits_of_rows(data: bytes, bits: int, rows: Sequence[int]) -> list[bool]:
    """Return the bits of some of the values, which are adjacent and have `bits` bits each."""
    return gather_bits(data, [(row * bits, bits) for row in rows])


def gather_bits(data: bytes, ranges: Sequence[tuple[int, int]]) -> list[bool]:
    """Return the bits of ranges, given as (first bit, count).

    Source: docs/format/encodings-2.0.md, "Flat".
    """
    bits = [bool(byte >> place & 1) for byte in data for place in range(8)]
    return [bit for start, count in ranges for bit in bits[start : start + count]]


def text_ends(
    values: Sequence[bytes | None], ranges: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the rows of the least and the greatest value of ranges; -1 for none.

    Ranges are given as (first, count).

    Source: docs/format/legacy.md, "Statistics".
    """
    ends = []
    for first, count in ranges:
        found = [(value, row) for row, value in enumerate(values) if value is not None]
        found = [(value, row) for value, row in found if first <= row < first + count]
        # Of equal values, the first one counts.
        least = min(found, default=(b"", -1))
        most = max(found, key=lambda pair: pair[0], default=(b"", -1))
        ends.append((least[1], most[1]))
    return ends


def adjusted_entries(
    stored: Sequence[int], adjustment: int, bounds: Sequence[tuple[int, int]]
) -> list[tuple[int, int] | None]:
    """Return where requested entries of a page begin and end; None for a null.

    Args:
        stored: End offsets of the whole page.
        adjustment: What is added for a null.
        bounds: First entry of each range, and the one after its last.

    Source: docs/format/encodings-2.0.md, "Adjusted offsets".
    """
    ends = [end % adjustment for end in stored]
    entries = list(zip([0, *ends], ends, strict=False))
    return [
        entries[i] if stored[i] < adjustment else None
        for start, stop in bounds
        for i in range(start, stop)
    ]


def unpack_linear(data: bytes, width: int, signed: bool, count: int) -> list[int]:
    """Return integers of `width` bits, which are stored back to back.

    Source: docs/format/encodings-2.0.md, "Bit-packed".
    """
    number = int.from_bytes(data, "little")
    values = [number >> i * width & ((1 << width) - 1) for i in range(count)]
    return [value - (1 << width) if signed and value >> width - 1 else value for value in values]
