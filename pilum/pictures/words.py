"""Sizes and names as people read them."""

from __future__ import annotations

__all__ = ["size_text", "visible"]

_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size_text(size_bytes: int) -> str:
    """Return a size with its unit, such as "1.5 MiB"."""
    for unit, name in _UNITS:
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{size_bytes} B"


def visible(text: str) -> str:
    r"""Return a text with its control characters escaped, such as `\x1b`.

    Names and values of tables come from others, and must not steer a terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )
