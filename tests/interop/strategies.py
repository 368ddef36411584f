"""Tables of every type that files of versions 2.1 and 2.2 hold, for hypothesis.

Hypothesis draws what shrinks well: types, numbers of rows, how values repeat, where nulls are.
The values themselves come from a generator with a drawn seed, whole columns at a time, so that
100,000 rows cost milliseconds. Everything that Arrow leaves open is used: items below null lists,
bytes below null values, arrays that begin in the middle of their buffers, tables of many chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from hypothesis import strategies as st
from numpy.typing import NDArray

__all__ = [
    "DICTIONARIES",
    "LEAVES",
    "SIZES",
    "Style",
    "array_of",
    "leaf_types",
    "most_rows",
    "newer_types",
    "sizes",
    "tables",
    "types",
]

_UNITS = ("s", "ms", "us", "ns")
_ZONES = ("UTC", "Europe/Paris", "+05:30")
_INTEGERS = tuple(
    getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)
)
_FLOATS = (pa.float16(), pa.float32(), pa.float64())
_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_TIMES = (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
_DECIMALS = tuple(
    [pa.decimal128(*shape) for shape in ((1, 0), (10, 2), (18, -3), (38, 10))]
    + [pa.decimal256(*shape) for shape in ((5, 5), (39, 0), (76, -2))]
)
_MOMENTS = tuple(
    [pa.timestamp(unit) for unit in _UNITS]
    + [pa.timestamp(unit, zone) for unit in _UNITS for zone in _ZONES]
    + [pa.duration(unit) for unit in _UNITS]
)
_FIXED = (
    *_INTEGERS,
    *_FLOATS,
    *_DECIMALS,
    *_MOMENTS,
    *_TIMES,
    pa.date32(),
    pa.date64(),
    pa.bool_(),
    *(pa.binary(width) for width in (1, 3, 16, 300)),
)
LEAVES = (*_FIXED, *_TEXTS, pa.null())
DICTIONARIES = tuple(
    pa.dictionary(key, value)
    for key, value in zip(
        (*_INTEGERS, pa.int8(), pa.int32(), pa.uint16(), pa.int64()) * 2,
        (*_TEXTS, *_INTEGERS, *_FLOATS[1:], pa.bool_(), *_TEXTS, pa.string()),
        strict=False,
    )
)

_BORDERS = (0, 1, 2, 7, 8, 9, 63, 64, 65, 1023, 1024, 1025, 4095, 4096, 4097, 8191, 8192, 8193)
SIZES = (*_BORDERS, 32_768, 65_535, 65_536, 65_537, 100_000)
_MAX_BYTES = 12_000_000
_NAMES = st.sampled_from(["a", "B", "c d", "été", "_x", "item", "Select", "0", "long" * 10, "💧"])
_DAY = 86_400
_DAY_MS = _DAY * 1000


def leaf_types() -> st.SearchStrategy[pa.DataType]:
    """Types that are one column of a file, fixed-size lists among them."""
    return st.sampled_from(LEAVES) | _fixed_size_lists() | st.sampled_from(DICTIONARIES)


def _fixed_size_lists() -> st.SearchStrategy[pa.DataType]:
    narrow = st.integers(1, 5)
    item = st.sampled_from(_FIXED)
    inner = st.builds(_fixed_size_list, item, st.booleans(), narrow)
    return st.one_of(
        inner,
        st.builds(_fixed_size_list, inner, st.booleans(), narrow),
        st.builds(_fixed_size_list, st.sampled_from(_FLOATS), st.booleans(), st.integers(60, 140)),
    )


def _fixed_size_list(item: pa.DataType, nullable: bool, size: int) -> pa.DataType:
    return pa.list_(pa.field("item", item, nullable), size)


def types() -> st.SearchStrategy[pa.DataType]:
    """All types, structs and lists in each other to a depth of four."""
    return leaf_types() | st.recursive(leaf_types(), _nested, max_leaves=4)


def newer_types() -> st.SearchStrategy[pa.DataType]:
    """All types of version 2.2: maps and fixed-size lists of structs are among them."""
    struct_lists = st.recursive(
        _structs(leaf_types()).flatmap(_struct_lists), _in_struct_lists, max_leaves=2
    )
    return types() | st.recursive(leaf_types(), _newer_nested, max_leaves=4) | struct_lists


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    items = _fields(st.just("item"), inner)
    return _structs(inner) | items.map(pa.list_) | items.map(pa.large_list)


def _newer_nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    key = st.sampled_from(
        (pa.string(), pa.int32(), pa.large_binary(), pa.dictionary(pa.int8(), pa.string()))
    )
    return _nested(inner) | st.builds(pa.map_, key, _fields(st.just("value"), inner))


def _in_struct_lists(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    """Structs of fixed-size lists of structs, also in each other; lists are not allowed there.

    Beside other members of a struct the reference writes them, but does not read them back.
    """
    alone = inner.map(lambda kind: pa.struct([("only", kind)]))
    return alone | _structs(inner | leaf_types()).flatmap(_struct_lists)


def _struct_lists(struct: pa.DataType) -> st.SearchStrategy[pa.DataType]:
    return st.builds(_fixed_size_list, st.just(struct), st.booleans(), st.integers(1, 4))


def _structs(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    members = st.lists(_fields(_NAMES, inner), min_size=1, max_size=3, unique_by=lambda f: f.name)
    return members.map(pa.struct)


def _fields(
    names: st.SearchStrategy[str], inner: st.SearchStrategy[pa.DataType]
) -> st.SearchStrategy[pa.Field]:
    # A column of nulls that must not be null has no values.
    return st.builds(
        lambda name, kind, nullable: pa.field(name, kind, nullable or pt.is_null(kind)),
        names,
        inner,
        st.booleans() | st.just(True),
    )


def sizes() -> st.SearchStrategy[int]:
    """Numbers of rows, many of them at the borders of chunks."""
    return st.sampled_from(_BORDERS) | st.integers(0, 300) | st.sampled_from(SIZES)


@dataclass(frozen=True)
class Style:
    """How the values of a column come about.

    Attributes:
        seed: Of the generator.
        nulls: Share of nulls.
        spread: "any" for values of the whole range, "small", "few" for few distinct values, "runs"
            for repeated neighbours, "one" for a single value.
        length: Most items of a list, and most bytes of most strings.
    """

    seed: int
    nulls: float
    spread: str
    length: int


def styles() -> st.SearchStrategy[Style]:
    """How columns look."""
    return st.builds(
        Style,
        st.integers(0, 2**32 - 1),
        st.sampled_from([0.0, 0.1, 0.5, 0.99, 1.0]),
        st.sampled_from(["any", "small", "few", "runs", "one"]),
        st.sampled_from([0, 1, 3, 8, 40]),
    )


@st.composite
def tables(
    draw: st.DrawFn,
    kinds: st.SearchStrategy[pa.DataType] | None = None,
    max_columns: int = 4,
    rows: st.SearchStrategy[int] | None = None,
) -> pa.Table:
    """Tables, also without rows, in one or more chunks, cut out of larger ones."""
    names = draw(st.lists(_NAMES, min_size=1, max_size=max_columns, unique=True))
    kind = types() if kinds is None else kinds
    columns = [(draw(_fields(st.just(name), kind)), draw(styles())) for name in names]
    size = min(
        draw(sizes() if rows is None else rows),
        *(most_rows(field.type, style) for field, style in columns),
    )
    before, behind = draw(st.sampled_from([(0, 0), (0, 0), (1, 0), (3, 2), (8, 1)]))
    table = pa.Table.from_arrays(
        [array_of(field, size + before + behind, style) for field, style in columns],
        schema=pa.schema([field for field, _ in columns]),
    ).slice(before, size)
    cuts = draw(st.lists(st.integers(0, size), max_size=3).map(sorted))
    pieces = [table.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    return pa.concat_tables(pieces)


def most_rows(kind: pa.DataType, style: Style) -> int:
    """How many rows a column may have; lists of lists of lists could fill any memory."""
    return max(_MAX_BYTES // _row_bytes(kind, style), 1)


def _row_bytes(kind: pa.DataType, style: Style) -> int:
    """About how much memory a value takes."""
    if pt.is_struct(kind):
        return sum(_row_bytes(member.type, style) for member in kind)
    if pt.is_map(kind):
        entries = pa.struct([kind.key_field, kind.item_field])
        return 8 + max(style.length, 1) * _row_bytes(entries, style) // 2
    if pt.is_dictionary(kind):
        return int(kind.index_type.bit_width) // 8 + 1
    if pt.is_list(kind) or pt.is_large_list(kind):
        return 8 + max(style.length, 1) * _row_bytes(kind.value_type, style) // 2
    if pt.is_fixed_size_list(kind):
        return int(kind.list_size) * _row_bytes(kind.value_type, style)
    return (
        8 + style.length if kind in _TEXTS else 1 if pt.is_null(kind) else kind.bit_width // 8 + 1
    )


def array_of(field: pa.Field, size: int, style: Style) -> pa.Array:
    """Values of a field, the same for the same style."""
    return _Maker(style).make(field, size)


class _Maker:
    def __init__(self, style: Style) -> None:
        self._style = style
        self._random = np.random.default_rng(style.seed)

    def make(self, field: pa.Field, size: int) -> pa.Array:
        kind = field.type
        mask = self._mask(size) if field.nullable else None
        if pt.is_null(kind):
            return pa.nulls(size)
        if pt.is_struct(kind):
            members = [self.make(member, size) for member in kind]
            return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
        if pt.is_fixed_size_list(kind):
            items = self.make(kind.value_field, size * kind.list_size)
            return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=mask)
        if pt.is_list(kind) or pt.is_large_list(kind):
            return self._list(kind, size, mask)
        if pt.is_map(kind):
            return self._map(kind, size, mask)
        if pt.is_dictionary(kind):
            return self._dictionary(kind, size, mask)
        buffers = self._text(kind, size) if kind in _TEXTS else [self._fixed(kind, size)]
        return pa.Array.from_buffers(kind, size, [_bitmap(mask), *map(pa.py_buffer, buffers)])

    def _mask(self, size: int) -> pa.Array | None:
        if self._style.nulls == 0:
            return None
        return pa.array(self._random.random(size) < self._style.nulls)

    def _list(self, kind: pa.DataType, size: int, mask: pa.Array | None) -> pa.Array:
        """Some items in front of the first list and below null lists, as Arrow allows."""
        width = np.int64 if pt.is_large_list(kind) else np.int32
        first = int(self._random.integers(0, 3))
        offsets = first + np.append(0, np.cumsum(self._lengths(size))).astype(width)
        items = self.make(kind.value_field, int(offsets[-1]) + 1)
        make = pa.LargeListArray if pt.is_large_list(kind) else pa.ListArray
        return make.from_arrays(pa.array(offsets), items, type=kind, mask=mask)

    def _map(self, kind: pa.DataType, size: int, mask: pa.Array | None) -> pa.Array:
        offsets = np.append(0, np.cumsum(self._lengths(size))).astype(np.int32)
        keys, values = (
            self.make(field, int(offsets[-1])) for field in (kind.key_field, kind.item_field)
        )
        entries = pa.StructArray.from_arrays([keys, values], fields=list(kind.field(0).type))
        buffers = [_bitmap(mask), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(kind, size, buffers, children=[entries])

    def _dictionary(self, kind: pa.DataType, size: int, mask: pa.Array | None) -> pa.Array:
        """Some values twice, some named by no key, in any order."""
        count = int(self._random.integers(1, 100))
        values = self.make(pa.field("", kind.value_type, nullable=False), count)
        keys = self._random.integers(0, count, size).astype(kind.index_type.to_pandas_dtype())
        return pa.DictionaryArray.from_arrays(
            pa.Array.from_buffers(
                kind.index_type, size, [_bitmap(mask), pa.py_buffer(self._pick(keys))]
            ),
            values,
        )

    def _lengths(self, size: int) -> NDArray[np.int64]:
        """Of lists and strings: mostly short, some none at all."""
        most = self._style.length
        lengths = self._random.integers(0, most + 1, size, dtype=np.int64)
        return self._pick(lengths * self._random.integers(0, 2, size))

    def _text(self, kind: pa.DataType, size: int) -> list[Any]:
        width = np.int64 if kind in (pa.large_string(), pa.large_binary()) else np.int32
        if self._style.spread in ("few", "one"):
            return self._repeated_text(size, width)
        lengths = self._lengths(size)
        lengths[: size // 500] *= 30
        offsets = np.append(0, np.cumsum(lengths)).astype(width)
        high = 128 if pt.is_string(kind) or pt.is_large_string(kind) else 256
        return [offsets, self._random.integers(0, high, int(offsets[-1]), dtype=np.uint8)]

    def _repeated_text(self, size: int, width: Any) -> list[Any]:
        pool = ["", "a", "hello", "grüß dich", "💧" * 3, "x" * 300, "0" * 20, "\0", "z" * 70]
        picked = pa.array(pool, pa.binary()).take(pa.array(self._pick_index(size, len(pool))))
        _, offsets, data = picked.buffers()
        return [np.frombuffer(offsets, np.int32, size + 1).astype(width), data or b""]

    def _fixed(self, kind: pa.DataType, size: int) -> Any:
        if pt.is_boolean(kind):
            bits = self._pick(self._random.integers(0, 2, size, dtype=np.uint8))
            return np.packbits(bits, bitorder="little")
        if pt.is_decimal(kind):
            return self._decimals(kind, size)
        if pt.is_fixed_size_binary(kind):
            rows = self._random.integers(0, 256, (size, kind.byte_width), dtype=np.uint8)
            return self._pick(rows)
        if kind in _FLOATS:
            return self._floats(kind, size)
        return self._integers(kind, size)

    def _integers(self, kind: pa.DataType, size: int) -> NDArray[Any]:
        dtype = np.dtype(f"{'u' if pt.is_unsigned_integer(kind) else 'i'}{kind.bit_width // 8}")
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        if pt.is_time(kind):
            low, high = 0, _DAY * 1000 ** _UNITS.index(kind.unit) - 1
        if self._style.spread == "small":
            low, high = max(low, -5), min(high, 100)
        values = self._random.integers(low, high, size, dtype=dtype, endpoint=True)
        return self._pick(values // _DAY_MS * _DAY_MS if pt.is_date64(kind) else values)

    def _floats(self, kind: pa.DataType, size: int) -> NDArray[Any]:
        dtype = np.dtype(kind.to_pandas_dtype())
        if self._style.spread == "small":
            return (self._random.integers(-9, 9, size) / 4).astype(dtype)
        values = self._random.integers(0, 256, (size, dtype.itemsize), dtype=np.uint8)
        values = self._pick(values.view(dtype).reshape(-1))
        odd = np.array([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf], dtype)
        return np.where(self._random.random(size) < 0.2, self._random.choice(odd, size), values)

    def _decimals(self, kind: pa.DataType, size: int) -> NDArray[np.int64]:
        """Two or four words, all within the precision."""
        words = self._random.integers(-(2**63), 2**63, (size, kind.bit_width // 64), dtype=np.int64)
        bits = 10 if self._style.spread == "small" else 128 if kind.bit_width == 128 else 256
        bits = min(bits, int(kind.precision * math.log2(10)))
        top, used = divmod(bits, 64)
        if top < words.shape[1]:
            words[:, top] >>= min(64 - used, 63)
            words[:, top + 1 :] = words[:, top : top + 1] >> 63
        return self._pick(words)

    def _pick(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values, or some of them again and again."""
        if self._style.spread in ("any", "small") or len(values) == 0:
            return values
        return np.ascontiguousarray(values[self._pick_index(len(values), min(len(values), 20))])

    def _pick_index(self, size: int, choices: int) -> NDArray[np.int64]:
        index = self._random.integers(0, 1 if self._style.spread == "one" else choices, size)
        if self._style.spread == "runs":
            index = np.repeat(index, self._random.integers(1, 90, size))[:size]
        return index


def _bitmap(mask: pa.Array | None) -> pa.Buffer | None:
    return None if mask is None else pa.compute.invert(mask).buffers()[1]
