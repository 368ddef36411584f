"""Signatures of texts, compared with naive Python and with the vectors of the specification."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.tokens import Analyzer, text_arguments
from pilum.kernels import MinHasher, band_keys, equal_values, reference_min_hash

_WORDS = Analyzer(
    InvertedParameters(base_tokenizer="whitespace", stem=False, remove_stop_words=False)
)
_SIZES = st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 4))
"""Values of a band, bands, tokens of a shingle."""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"the\x1fquick", 0x4C0B0D36203CE55F),
        (b"quick\x1fbrown", 0x09C7AE895D82B184),
        (b"brown\x1ffox", 0x68E7F4B1BE7B4C1F),
        (b"fox", 0x07C0130AB04388D5),
    ],
)
def test_naive_hash(data: bytes, expected: int) -> None:
    """The twin has the hashes of the specification."""
    assert reference_min_hash.xxh64(data, 42) == expected


@given(st.lists(st.none() | st.text("ab é\n", max_size=60), max_size=5), _SIZES)
def test_signatures(texts: list[str | None], sizes: tuple[int, int, int]) -> None:
    """Texts with tokens have signatures and keys, the others none."""
    width, num_bands, shingle_size = sizes
    kernel = _WORDS.min_hasher(width * num_bands, num_bands, shingle_size)
    array = pa.array([None, *texts], pa.string()).slice(1)
    rows, values, keys = kernel.sign(text_arguments(array)[0])
    tokens = [[word for word, _ in _WORDS.words(text or "")] for text in texts]
    naive = [reference_min_hash.signature(one, width * num_bands, shingle_size) for one in tokens]
    expected = [one for one in naive if one is not None]
    assert rows.tolist() == [row for row, one in enumerate(naive) if one is not None]
    assert values.tolist() == [value for one in expected for value in one]
    assert keys.tolist() == [
        key for one in expected for key in reference_min_hash.band_keys(one, num_bands)
    ]
    assert keys.tolist() == band_keys(values, width * num_bands, num_bands).tolist()
    for text, one in zip(texts, naive, strict=True):
        values_of_one, keys_of_one = kernel.sign_one(text or "")
        assert values_of_one.tolist() == (one or [])
        own_keys = reference_min_hash.band_keys(one, num_bands) if one else []
        assert keys_of_one.tolist() == own_keys
    if expected:
        of = np.array(expected[-1], np.uint16)
        shared = [sum(a == b for a, b in zip(one, expected[-1], strict=True)) for one in expected]
        assert equal_values(values, of).tolist() == shared


def test_bad_sizes() -> None:
    """Impossible sizes are errors."""
    for num_hashes, num_bands, shingle_size in [(0, 1, 1), (4, 3, 1), (4, 2, 0), (4097, 1, 1)]:
        with pytest.raises(ValueError, match="expected"):
            _WORDS.min_hasher(num_hashes, num_bands, shingle_size)
    with pytest.raises(ValueError, match="signatures"):
        band_keys(np.zeros(3, np.uint16), 2, 1)
    with pytest.raises(ValueError, match="signatures"):
        equal_values(np.zeros(3, np.uint16), np.zeros(2, np.uint16))
    with pytest.raises(TypeError):
        MinHasher(object(), 4, 2, 1)  # type: ignore[arg-type]
