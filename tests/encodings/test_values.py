"""Which encoding values get, and that the reference implementation reads all of them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum
from pilum.blocks import FixedBlock, block_of
from pilum.encodings.base import Candidate
from pilum.encodings.options import EncodingOptions
from pilum.encodings.values import (
    Choice,
    PlainValues,
    choose_dictionary,
    choose_fixed,
    compressed_decimals,
)
from pilum.format.version import FileVersion

_ROWS = 20_000
_RANDOM = np.random.default_rng(5)


def _prices() -> pa.Array:
    values = np.round(_RANDOM.gamma(2, 20, _ROWS), 1)
    values[:4] = (np.nan, -0.0, 0.0, -np.nan)
    return pa.array(values, from_pandas=False)


def _identifiers() -> pa.Array:
    known = _RANDOM.integers(-(2**62), 2**62, 700)
    return pa.array(known[_RANDOM.integers(0, 700, _ROWS)], mask=_RANDOM.random(_ROWS) < 0.2)


def _days() -> pa.Array:
    days = _RANDOM.integers(19_000, 19_400, _ROWS) * 86_400_000_000
    return pa.array(days, pa.timestamp("us"))


def _decimals() -> pa.Array:
    cents = _RANDOM.integers(-(10**7), 10**7, _ROWS).tolist()
    return pa.array([Decimal(cent).scaleb(-2) for cent in cents], pa.decimal128(15, 2))


def _amounts() -> pa.Array:
    """Make decimals of which the low bytes differ only, which get a sequence of LZ4 each."""
    cents = _RANDOM.integers(0, 10**7, _ROWS).tolist()
    amounts = pa.array([Decimal(cent).scaleb(-2) for cent in cents], pa.decimal128(15, 2))
    return pc.if_else(pa.array(_RANDOM.random(_ROWS) < 0.1), None, amounts)


def _wide_decimals() -> pa.Array:
    numbers = _RANDOM.integers(0, 10**9, 3000).tolist()
    return pa.array([Decimal(number) for number in numbers], pa.decimal256(40, 0))


def _delays() -> pa.Array:
    """Make numbers of 32 bits of which some are negative, so that bit-packing saves nothing."""
    minutes = _RANDOM.integers(-30, 300, _ROWS, dtype=np.int32)
    return pa.array(minutes, mask=_RANDOM.random(_ROWS) < 0.03)


def _ratios() -> pa.Array:
    return pa.array(_RANDOM.integers(-200, 200, _ROWS).astype(np.float32) / np.float32(7))


def _numbered_days() -> pa.Array:
    """Make dates that bit-packing stores in 14 bits, where a dictionary would take 12."""
    return pa.array(_RANDOM.integers(8000, 11_000, _ROWS, dtype=np.int32), pa.date32())


def _hashes() -> pa.Array:
    return pa.array([_RANDOM.bytes(16) for _ in range(3000)], pa.binary(16))


def _passages() -> pa.Array:
    words = np.array(["ship", "harbour", "grain", "copper", "wool", "letter", "town", "north"])
    drawn = _RANDOM.integers(0, len(words), (400, 150))
    return pa.array([" ".join(words[row]) for row in drawn])


def _sentences() -> pa.Array:
    """Make text that repeats symbols, in an order that no longer match predicts."""
    text = (
        "the quick brown fox jumps over lazy dog while seven wizards box quietly near old "
        "harbours and every morning ships carry grain salt wool copper letters from distant "
        "northern towns to markets where people speak many languages about weather"
    )
    words = text.split()
    drawn = _RANDOM.integers(0, len(words), (300, 200))
    return pa.array([" ".join(words[number] for number in row) for row in drawn])


_KINDS: dict[str, Callable[[], pa.Array]] = {
    "prices": _prices,
    "identifiers": _identifiers,
    "days": _days,
    "decimals": _decimals,
    "amounts": _amounts,
    "wide decimals": _wide_decimals,
    "delays": _delays,
    "ratios": _ratios,
    "numbered days": _numbered_days,
    "hashes": _hashes,
    "passages": _passages,
    "sentences": _sentences,
}


_PACKED, _TEXT = "inline_bitpacking(32)", "variable(flat(32))"
_CHOSEN = {
    "prices": (_PACKED, _PACKED, "flat(64)"),
    "identifiers": (_PACKED, _PACKED, "flat(64)"),
    "days": (_PACKED, _PACKED, "inline_bitpacking(64)"),
    "decimals": ("general(zstd, flat(128))", "general(lz4, flat(128))", "flat(128)"),
    "amounts": ("general(zstd, flat(128))", "general(lz4, flat(128))", "flat(128)"),
    "wide decimals": ("general(zstd, flat(256))", "general(lz4, flat(256))", "flat(256)"),
    "delays": (_PACKED, _PACKED, "flat(32)"),
    "ratios": (_PACKED, _PACKED, "flat(32)"),
    "numbered days": ("general(zstd, byte_stream_split(flat(32)))", _PACKED, _PACKED),
    "hashes": ("flat(128)", "flat(128)", "flat(128)"),
    "passages": (f"general(zstd, fsst({_TEXT}))", f"fsst({_TEXT})", f"fsst({_TEXT})"),
    "sentences": (f"general(zstd, fsst({_TEXT}))", f"fsst({_TEXT})", f"fsst({_TEXT})"),
}
"""Encodings for the preferences size, none and speed; indices of dictionaries have 32 bits."""


def _written(values: pa.Array, folder: Path, version: str, **options: Any) -> tuple[str, int]:
    """Write a column, compare what both libraries read, and return its encoding and size."""
    table = pa.table({"v": values})
    pilum.write_dataset(
        table,
        folder,
        data_storage_version=version,
        encoding_options=EncodingOptions(**options),
        mode="overwrite",
    )
    found = pilum.dataset(folder)
    rows = [0, 1, 2, 3, len(values) // 2, len(values) - 1]
    assert _same(found.to_table(), table)
    assert _same(found.take(rows), table.take(rows))
    lance = pytest.importorskip("lance", reason="pylance is not installed")
    other = lance.dataset(str(folder))
    assert _same(other.to_table(), table)
    assert _same(other.take(rows), table.take(rows))
    [fragment] = found.get_fragments()
    [file] = fragment.metadata.files
    [encoding] = {page.encoding for page in pilum.explain(found, ["v"]).pages}
    return encoding, file.file_size_bytes or 0


def _same(found: pa.Table, expected: pa.Table) -> bool:
    """Compare floats by their bits."""
    if expected.schema.types != [pa.float64()]:
        return bool(found.equals(expected))
    one, other = (table["v"].combine_chunks().view(pa.int64()) for table in (found, expected))
    return bool(one.equals(other))


@pytest.mark.reference
@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("kind", _KINDS)
def test_every_preference_is_read_by_both_libraries(
    kind: str, version: str, tmp_path: Path
) -> None:
    values = _KINDS[kind]()
    found = [
        _written(values, tmp_path / str(prefer), version, prefer=prefer)
        for prefer in ("size", None, "speed")
    ]
    assert [encoding for encoding, _ in found] == list(_CHOSEN[kind])
    sizes = [size for _, size in found]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(("times", "by_value"), [(1, True), (100, False)])
def test_decimals_get_a_sequence_each_where_that_is_as_small(times: int, by_value: bool) -> None:
    cents = np.tile(_RANDOM.integers(0, 10**7, _ROWS // times), times)
    block, options = block_of(pa.array(cents).cast(pa.decimal128(19, 0))), EncodingOptions()
    assert isinstance(block, FixedBlock)
    chosen = compressed_decimals(choose_fixed(block, options), options)
    assert chosen is not None
    assert chosen.by_value == by_value


def test_the_number_of_distinct_values_is_estimated() -> None:
    codes = _RANDOM.integers(0, 32_816, 300_000)
    for values in (pa.array(codes * 3_000_000_019), pa.array(codes).cast(pa.string())):
        chosen = _choice(values)
        assert isinstance(chosen, Choice)
        assert chosen.dictionary is not None
        assert chosen.dictionary.num_values == len(np.unique(codes))


@pytest.mark.parametrize(
    "values",
    [
        np.arange(300_000),
        np.repeat(np.arange(100_001), 3),  # they repeat within stretches of the sample only
        _RANDOM.integers(0, 2**62, 300_000),
    ],
    ids=["rising", "rising in runs", "random"],
)
def test_values_that_hardly_repeat_are_not_counted(values: Any) -> None:
    chosen = _choice(pa.array(values * 3_000_017))
    assert isinstance(chosen, Candidate)
    assert chosen.note == "more than 100000 different values by a sample"


def _choice(values: pa.Array) -> Choice | Candidate:
    return choose_dictionary(
        values, PlainValues(block_of(values), EncodingOptions()), FileVersion.V2_1
    )
