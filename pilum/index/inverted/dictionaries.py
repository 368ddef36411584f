"""Texts without blanks, cut into words by packages that have a dictionary.

    jieba/default    Chinese, by the package rjieba (`pilum[chinese]`)
    lindera/NAME     Japanese or Korean, by the package lindera-python (`pilum[japanese]`) and a
                     dictionary of this machine

    南京市长江大桥  ──▶  南京@0 京市@1 南京市@0 长江@3 大桥@5 长江大桥@3
    東京都に住む    ──▶  東京@0 都@1 に@2 住む@3

Of jieba, words inside of longer words are pieces, too, and a position is a number of characters. Of
lindera, it is a number of words. Dictionaries lie in the folder `LANCE_LANGUAGE_MODEL_HOME`, where
the reference looks for them:

    lindera/NAME/config.yml    the settings of lindera, which name the folder of the dictionary;
                               without this file, those of LINDERA_CONFIG_PATH
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.errors import InvalidInputError, MissingDependencyError

__all__ = ["JIEBA", "Pieces", "Segmenter", "is_lindera", "pieces", "segmenter"]

JIEBA = "jieba/default"

_LINDERA = "lindera"

Segmenter: TypeAlias = Callable[[str], Iterable[tuple[str, int]]]
"""Returns the words of a text with their positions."""

_DICTIONARY_SHA256 = "139519822fe8ab9e10d9d07e68ea0451045380aedaf54ecc51e2a28c6b42a13f"


@dataclass(frozen=True)
class Pieces:
    """Documents that are cut.

    Attributes:
        words: The words of all documents, one document after the other.
        positions: The position of each word in its document.
        ends: int64; the number of words at the end of each document.
    """

    words: pa.Array
    positions: NDArray[np.uint32]
    ends: NDArray[np.int64]


def is_lindera(base: str) -> bool:
    """Return whether a base tokenizer is a dictionary of lindera."""
    first, *names = PurePosixPath(base).parts or ("",)
    return first == _LINDERA and bool(names) and ".." not in names


@cache
def segmenter(base: str) -> Segmenter | None:
    """Return the segmenter of a base tokenizer; None if the kernels cut its texts.

    Raises:
        MissingDependencyError: If its package is not installed.
        InvalidInputError: If this machine does not have its dictionary, or another one of its name.
    """
    if base == JIEBA:
        return _jieba()
    return _lindera(base) if is_lindera(base) else None


def _jieba() -> Segmenter:
    _require_usual_dictionary()
    try:
        import rjieba
    except ImportError as error:
        raise MissingDependencyError(
            f"base_tokenizer={JIEBA!r} needs rjieba: pip install 'pilum[chinese]'"
        ) from error
    jieba = rjieba.Jieba()
    return lambda text: [(word, start) for word, start, _ in jieba.tokenize(text, "search", True)]


def _lindera(base: str) -> Segmenter:
    folder = _home() / base
    if not folder.is_dir():
        raise InvalidInputError(
            f"base_tokenizer={base!r} needs a dictionary of lindera, and there is no folder "
            f"{folder}; put it there, or set LANCE_LANGUAGE_MODEL_HOME"
        )
    try:
        from lindera import TokenizerBuilder
    except ImportError as error:
        raise MissingDependencyError(
            f"base_tokenizer={base!r} needs lindera-python: pip install 'pilum[japanese]'"
        ) from error
    settings = folder / "config.yml"
    try:
        builder = TokenizerBuilder()
        if settings.exists():
            builder = builder.from_file(str(settings))
        lindera = builder.build()
    except ValueError as error:
        raise InvalidInputError(
            f"base_tokenizer={base!r}: the dictionary of {settings}: {error}"
        ) from error
    return lambda text: [(word.surface, word.position) for word in lindera.tokenize(text)]


def pieces(cut: Segmenter, documents: pa.Array) -> Pieces:
    """Cut documents, which are strings or lists of strings."""
    words: list[str] = []
    positions: list[int] = []
    ends: list[int] = []
    for text in _texts(documents):
        for word, position in cut(text) if text else ():
            words.append(word)
            positions.append(position)
        ends.append(len(words))
    return Pieces(
        pa.array(words, pa.large_string()),
        np.array(positions, np.uint32),
        np.array(ends, np.int64),
    )


def _texts(documents: pa.Array) -> Iterator[str | None]:
    if not pt.is_list(documents.type) and not pt.is_large_list(documents.type):
        yield from documents.to_pylist()
        return
    for members in documents.to_pylist():
        joined = ""
        for member in members or ():
            if member is not None:
                joined = f"{joined} {member}" if joined else member
        yield joined


def _home() -> Path:
    """Return the folder in which the reference looks for dictionaries."""
    usual = Path.home() / ".local/share/lance/language_models"
    return Path(os.environ.get("LANCE_LANGUAGE_MODEL_HOME", usual))


def _require_usual_dictionary() -> None:
    """Raise an error if the reference would use another dictionary on this machine."""
    folder = _home() / JIEBA
    settings, dictionary = folder / "config.json", folder / "dict.txt"
    is_usual = not settings.exists() or _names_no_file(settings.read_bytes())
    if dictionary.exists():
        digest = hashlib.sha256(dictionary.read_bytes()).hexdigest()
        is_usual = is_usual and digest == _DICTIONARY_SHA256
    if not is_usual:
        raise InvalidInputError(
            f"base_tokenizer={JIEBA!r}: {folder} contains a dictionary that pilum cannot use; "
            "only the one of jieba-rs is supported"
        )


def _names_no_file(settings: bytes) -> bool:
    try:
        found = json.loads(settings)
    except ValueError:
        return False
    return isinstance(found, dict) and not found.get("main") and not found.get("users")
