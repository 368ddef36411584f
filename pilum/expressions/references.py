"""Find the columns that an expression reads."""

from __future__ import annotations

from pilum.expressions.nodes import Column, Expression, walk

__all__ = ["references"]


def references(node: Expression) -> tuple[str, ...]:
    """Return the columns that a bound expression reads, each once, in order of appearance.

    A member of a struct is a dotted path. If a name in the path contains a dot, or the whole struct
    is read too, the struct is named instead.
    """
    paths = [below.path for below in walk(node) if isinstance(below, Column)]
    wanted = dict.fromkeys(_addressable(path) for path in paths)
    return tuple(".".join(path) for path in wanted if not _covered(path, wanted))


def _addressable(path: tuple[str, ...]) -> tuple[str, ...]:
    for depth, name in enumerate(path):
        if "." in name and depth:
            return path[:depth]
    return path


def _covered(path: tuple[str, ...], wanted: dict[tuple[str, ...], None]) -> bool:
    return any(path[:depth] in wanted for depth in range(1, len(path)))
