"""The texts that a match of a regular expression has to contain."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.expressions.patterns import required_texts


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("abc", ("abc",)),
        (r"\d+ab(c|d)ef?gh", ("ab", "e", "gh")),
        ("^foo.*bar$", ("foo", "bar")),
        (r"a\.b", ("a.b",)),
        ("ab{0,2}c", ("a", "c")),
        ("ab{2}c", ("ab", "c")),
        ("(?:ab)cd", ("cd",)),
        ("x[abc]y", ("x", "y")),
        ("", ()),
        ("a|b", ()),
        ("(?i)abc", ()),
        ("[[:alpha:]]x", ()),
        (r"\x41bc", ()),
        (r"\Qa|b\E", ()),
        ("(?P<n>x)y", ()),
    ],
)
def test_required_texts(pattern: str, texts: tuple[str, ...]) -> None:
    assert required_texts(pattern) == texts


@given(
    st.text("ab.*+?|()[]^$\\d{}0,", max_size=8),
    st.lists(st.text("ab.|(0", max_size=8), min_size=1, max_size=8),
)
def test_every_match_contains_the_texts(pattern: str, values: list[str]) -> None:
    try:
        matches = pc.match_substring_regex(pa.array(values), pattern=pattern).to_pylist()
    except pa.ArrowInvalid:
        return
    for value, is_match in zip(values, matches, strict=True):
        if is_match:
            assert all(text in value for text in required_texts(pattern))
