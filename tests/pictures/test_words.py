"""Sizes and names as people read them."""

from __future__ import annotations

import pytest

from pilum.pictures.words import size_text, visible


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 << 30, "5.0 GiB"),
        (1 << 50, "1024.0 TiB"),
    ],
)
def test_sizes_have_units(size: int, text: str) -> None:
    assert size_text(size) == text


def test_control_characters_are_escaped() -> None:
    assert visible("Übermut → 3") == "Übermut → 3"
    assert visible("a\x1b[1m\n\x07") == r"a\x1b[1m\n\x07"
