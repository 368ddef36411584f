"""The arguments that callers pass: checks of counts, positions, ids and texts; signatures."""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import InvalidInputError, UnknownArgumentError

__all__ = [
    "MOST_COUNT",
    "MOST_UNSIGNED",
    "integer_of",
    "is_text",
    "optional_count",
    "positions",
    "require_choice",
    "require_count",
    "require_dict",
    "require_function",
    "require_known",
    "require_list",
    "require_names",
    "require_row_ids",
    "require_text",
    "require_texts",
    "with_keywords",
    "with_positions",
]

F = TypeVar("F", bound=Callable[..., Any])

_NO_DEFAULTS: Mapping[str, Any] = MappingProxyType({})

MOST_COUNT = 2**63 - 1
"""The highest count that a kernel or Arrow takes."""

MOST_UNSIGNED = 2**64 - 1
"""The highest seed, and the highest number of a version: detached ones have the highest bit."""


def with_keywords(
    keywords: type, defaults: Mapping[str, Any] = _NO_DEFAULTS, *, without: Collection[str] = ()
) -> Callable[[F], F]:
    """Decorate a function that passes keywords on, so that its signature lists all of them.

    Type checkers read the keywords from `Unpack`; `help` and the API reference read the signature.

    Args:
        keywords: The TypedDict of the keywords.
        defaults: Their default values; None for all others.
        without: Keywords that the function rejects.
    """
    keyword, open_ended = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD

    def spell_out(function: F) -> F:
        signature = inspect.signature(function)
        known = signature.parameters.values()
        added = [
            inspect.Parameter(name, keyword, default=defaults.get(name), annotation=_text(kind))
            for name, kind in keywords.__annotations__.items()
            if name not in signature.parameters and name not in without
        ]
        rest = [
            one for one in known if one.kind is open_ended and "Unpack" not in str(one.annotation)
        ]
        named = [one for one in known if one.kind is not open_ended]
        signature = signature.replace(parameters=[*named, *added, *rest])
        vars(function)["__signature__"] = signature
        return function

    return spell_out


def with_positions(*names: str) -> Callable[[F], F]:
    """Decorate a function so that callers may pass some of its keywords by position too.

    Args:
        names: The keywords, in the order of the positions after those that the function has.
    """

    def accept(function: F) -> F:
        signature = inspect.signature(function)
        known = dict(signature.parameters)
        keywords = [known.pop(name) for name in names]
        by_position = [one for one in known.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
        rest = [one for one in known.values() if one.kind is not one.POSITIONAL_OR_KEYWORD]
        named = [one.replace(kind=one.POSITIONAL_OR_KEYWORD) for one in keywords]
        signature = signature.replace(parameters=[*by_position, *named, *rest])
        count = len(by_position)

        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            for name, value in zip(names, args[count:], strict=False):
                if name in given:
                    raise TypeError(f"{function.__name__}() got multiple values for {name!r}")
                given[name] = value
            return function(*args[:count], *args[count + len(names) :], **given)

        vars(call)["__signature__"] = signature
        return cast("F", call)

    return accept


def _text(annotation: Any) -> Any:
    return getattr(annotation, "__forward_arg__", annotation)


def integer_of(value: Any) -> int | None:
    """Return an integer of Python or NumPy as one of Python; None for any other value."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def require_count(what: str, value: Any, least: int = 0, most: int = MOST_COUNT) -> int:
    """Return an integer argument; raise InvalidInputError unless it is from `least` to `most`."""
    if type(value) is int and least <= value <= most:
        return value
    number = integer_of(value)
    if number is None:
        raise InvalidInputError(f"{what}: expected an integer, found {value!r}")
    if number < least:
        raise InvalidInputError(f"{what}: expected at least {least}, found {number}")
    if number > most:
        raise InvalidInputError(f"{what}: expected at most {most}, found {number}")
    return number


def optional_count(what: str, value: Any, least: int = 0) -> int | None:
    """Check that an argument is None, or an integer of at least `least`."""
    return None if value is None else require_count(what, value, least)


def require_known(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise UnknownArgumentError if a caller used the name of a keyword that a call does not have.

    `what` is the call and its verb, such as "scans have", for the message.
    """
    if unknown := set(given).difference(known):
        name = min(unknown, key=str)
        close = difflib.get_close_matches(str(name), sorted(known), 1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise UnknownArgumentError(f"{what} no argument {name!r}{meant}")


def require_text(what: str, value: Any) -> str:
    """Return a text; raise InvalidInputError for any other value, or if UTF-8 has no form of it."""
    if not is_text(value):
        raise InvalidInputError(f"{what}: expected a text, found {value!r:.80}")
    return cast("str", value)


def require_choice(what: str, value: Any, *choices: str) -> None:
    """Raise InvalidInputError unless an argument is one of some texts."""
    if not (isinstance(value, str) and value in choices):
        known = f"one of {', '.join(choices)}" if len(choices) > 2 else " or ".join(choices)
        raise InvalidInputError(f"{what}: expected {known}, found {value!r:.80}")


def require_list(what: str, values: Any) -> list[Any]:
    """Return the items of an argument; raise InvalidInputError if it is one text, or no list."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidInputError(f"{what}: expected a list, found {values!r:.80}")
    return list(values)


def require_names(what: str, values: Any) -> list[str]:
    """Return an argument as a list of texts; raise InvalidInputError if it is not one."""
    names = require_list(what, values)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInputError(f"{what}: expected names, found {name!r:.80}")
    return names


def require_dict(what: str, values: Any) -> dict[str, Any]:
    """Return an argument as a dict with texts as keys; raise InvalidInputError if it is not one."""
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise InvalidInputError(f"{what}: expected a dict with names as keys, found {values!r:.80}")
    return dict(values)


def require_function(what: str, value: Any) -> None:
    """Raise InvalidInputError unless an argument is a function or None."""
    if value is not None and not callable(value):
        raise InvalidInputError(f"{what}: expected a function, found {value!r:.80}")


def require_texts(what: str, values: Any) -> dict[str, str]:
    """Return an argument as a dict of strings; raise InvalidInputError if it is not one."""
    if not isinstance(values, Mapping) or not all(
        is_text(text) for pair in values.items() for text in pair
    ):
        raise InvalidInputError(f"{what}: expected a dict of texts, found {values!r}")
    return dict(values)


def is_text(value: Any) -> bool:
    """Return whether a value is a text that UTF-8 has a form of."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def positions(indices: Any, num_rows: int) -> NDArray[np.int64]:
    """Return row positions, given as a list, a numpy array or a pyarrow array.

    InvalidInputError is raised if one is not an integer, is null, negative, or beyond the last row.
    """
    if isinstance(indices, pa.ChunkedArray):
        indices = indices.combine_chunks()
    if isinstance(indices, pa.Array) and indices.null_count:
        raise InvalidInputError("indices: expected integers, found nulls")
    found = np.asarray(indices if hasattr(indices, "__len__") else require_list("indices", indices))
    if found.size == 0:
        return np.empty(0, np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InvalidInputError(f"indices: expected integers, found {found.dtype}")
    for index in (found.min(), found.max()):
        if not 0 <= int(index) < num_rows:
            raise InvalidInputError(f"indices: there is no row {index}; there are {num_rows} rows")
    return found.astype(np.int64)


def require_row_ids(what: str, values: Any) -> NDArray[np.uint64]:
    """Return row ids or addresses; raise InvalidInputError unless they are uint64 numbers."""
    listed = values if hasattr(values, "__len__") else require_list(what, values)
    if (plain := _plain_integers(listed)) is not None:
        return plain.astype(np.uint64)
    try:
        if isinstance(listed, pa.ChunkedArray):
            listed = listed.combine_chunks()
        found = pa.array(listed, None if len(listed) else pa.uint64())
        if not pa.types.is_integer(found.type) or found.null_count:
            raise InvalidInputError(f"{what}: expected integers, found {found.type} or nulls")
        ids: NDArray[np.uint64] = found.cast(pa.uint64()).to_numpy()
    except (OverflowError, TypeError, UnicodeEncodeError, pa.ArrowException) as error:
        raise InvalidInputError(f"{what}: expected integers without sign ({error})") from error
    return ids


def _plain_integers(values: Any) -> NDArray[np.generic] | None:
    """Return unsigned integers that need no conversion by Arrow, which would import pandas."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return None
    try:
        found = np.asarray(values)
    except ValueError:
        return None
    is_plain = found.ndim == 1 and found.dtype.kind in "iu" and found.size and found.min() >= 0
    return found if is_plain else None
