"""Sets of rows as bytes: round trips, recorded bytes of the reference, and damage."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from pilum.errors import CorruptFileError
from pilum.index.row_maps import pack_rows, pack_rows_64, unpack_rows, unpack_rows_64

_ROWS_2_AND_5 = "0100000000000000140000003a30000001000000000001001000000002000500"
_ROW_1_OF_FRAGMENT_1 = "0100000000000000010000003a3000000100000000000000100000000100"
_REFERENCES = st.sets(st.integers(0, 70_000) | st.integers(0, 2**64 - 1), max_size=50)


@given(_REFERENCES)
def test_round_trip(references: set[int]) -> None:
    """Both forms return the rows that were packed."""
    rows = np.array(sorted(references), dtype=np.uint64)
    assert unpack_rows(pack_rows(rows), "file").tolist() == rows.tolist()
    assert unpack_rows_64(pack_rows_64(rows), "file").tolist() == rows.tolist()


def test_bytes_of_the_reference() -> None:
    """The bytes are those that the reference writes."""
    assert pack_rows(np.array([2, 5], np.uint64)).hex() == _ROWS_2_AND_5
    assert pack_rows_64(np.array([2**32 + 1], np.uint64)).hex() == _ROW_1_OF_FRAGMENT_1


def test_many_rows_in_bitmap_containers() -> None:
    """Dense rows take one bit each, as the reference does not use runs."""
    rows = np.arange(70_000, dtype=np.uint64)
    assert len(pack_rows(rows)) == 16_420
    assert np.array_equal(unpack_rows(pack_rows(rows), "file"), rows)


@given(st.binary(max_size=60), _REFERENCES, st.integers(0, 200))
def test_damage(noise: bytes, references: set[int], cut: int) -> None:
    """Damaged bytes are an error, or a sorted set of rows."""
    rows = np.array(sorted(references), dtype=np.uint64)
    for pack, unpack in ((pack_rows, unpack_rows), (pack_rows_64, unpack_rows_64)):
        for damaged in (noise, pack(rows)[:cut] + noise):
            with suppress(CorruptFileError):
                found = unpack(damaged, "page.lance")
                assert (found[:-1] < found[1:]).all()


def test_runs_that_claim_too_much() -> None:
    """A few bytes cannot claim so many rows that they exhaust the memory."""
    bitmap = BitMap(range(1 << 20))
    bitmap.add_range(0, 1 << 32)
    bitmap.run_optimize()
    data = bitmap.serialize()
    assert len(data) < 1 << 20
    packed = b"\1\0\0\0" + b"\0\0\0\0" + len(data).to_bytes(4, "little") + data
    with pytest.raises(CorruptFileError, match="a set of 4294967296 rows"):
        unpack_rows(packed, "page.lance")
    with pytest.raises(CorruptFileError, match="a set of 4294967296 rows"):
        unpack_rows_64(b"\1" + bytes(11) + data, "page.lance")
