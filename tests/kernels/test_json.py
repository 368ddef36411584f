"""JSON text to its binary form and back, against the twin."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum import kernels
from pilum.errors import CorruptFileError
from pilum.kernels.reference_json import binary_json

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=4) | st.dictionaries(TEXT, v, max_size=4), max_leaves=12
)


def buffers(values: list[bytes | None], kind: Any) -> tuple[Any, Any, Any]:
    """Offsets, bytes and validity."""
    offsets = np.cumsum([0, *(len(value or b"") for value in values)], dtype=kind)
    data = np.frombuffer(b"".join(value or b"" for value in values), dtype=np.uint8)
    valid = np.packbits(np.array([v is not None for v in values], bool), bitorder="little")
    return offsets, data, valid


def strings(offsets: Any, data: Any) -> list[bytes]:
    return [bytes(data[a:b]) for a, b in pairwise(offsets)]


@given(st.lists(st.none() | VALUES.map(json.dumps), max_size=6), st.sampled_from(["i4", "i8"]))
def test_both_ways(texts: list[str | None], kind: str) -> None:
    binary = kernels.encode_json(
        *buffers([None if text is None else text.encode() for text in texts], kind)
    )
    assert strings(*binary) == [b"" if text is None else binary_json(text) for text in texts]
    valid = np.packbits(np.array([t is not None for t in texts], bool), bitorder="little")
    for found, text in zip(strings(*kernels.decode_json(*binary, valid)), texts, strict=True):
        if text is None:
            assert found == b""
        else:
            assert binary_json(found.decode()) == binary_json(text)


@pytest.mark.parametrize("text", ["", "{", "[1,]", "01", "nul", "1 2", '{"a":1,"a":1}', "NaN"])
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match="row 1: "):
        kernels.encode_json(*buffers([b"1", text.encode()], "i4"))


@given(VALUES.map(json.dumps), st.data())
def test_damage_is_found_or_read(text: str, data: st.DataObject) -> None:
    binary = bytearray(binary_json(text))
    for _ in range(data.draw(st.integers(1, 3))):
        binary[data.draw(st.integers(0, len(binary) - 1))] = data.draw(st.integers(0, 255))
    del binary[data.draw(st.integers(0, len(binary))) :]
    with suppress(CorruptFileError):
        kernels.decode_json(*buffers([bytes(binary)], "i8"))
