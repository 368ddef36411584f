"""Stop words by language, and `all`, those that `icu` drops for every language.

They are the ones of the reference implementation, found by asking it. Most come from the lists of
the Snowball project (BSD 3-Clause, https://snowballstem.org).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

__all__ = ["stop_words"]


@cache
def stop_words(language: str) -> tuple[str, ...]:
    """Return the stop words of a language, or those of `all`."""
    text = files(__name__).joinpath(f"{language.lower()}.txt").read_text("utf-8")
    return tuple(text.split())
