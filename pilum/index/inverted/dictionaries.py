"""Texts without blanks, cut into words by packages that have a dictionary.

    jieba/default    Chinese, by the package rjieba (`pilum[chinese]`)

    南京市长江大桥  ──▶  南京@0 京市@1 南京市@0 长江@3 大桥@5 长江大桥@3

Words inside of longer words are pieces, too. A position is a number of characters.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.errors import InvalidInputError, MissingDependencyError

__all__ = ["JIEBA", "Pieces", "Segmenter", "pieces", "segmenter"]

JIEBA = "jieba/default"

Segmenter: TypeAlias = Callable[[str], list[tuple[str, int, int]]]
"""Returns the words of a text, each with the characters where it begins and ends."""

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


@cache
def segmenter(base: str) -> Segmenter | None:
    """Return the segmenter of a base tokenizer; None if the kernels cut its texts.

    Raises:
        MissingDependencyError: If its package is not installed.
        InvalidInputError: If this machine has another dictionary of that name.
    """
    if base != JIEBA:
        return None
    _require_usual_dictionary()
    try:
        import rjieba
    except ImportError as error:
        raise MissingDependencyError(
            f"base_tokenizer={JIEBA!r} needs rjieba: pip install 'pilum[chinese]'"
        ) from error
    jieba = rjieba.Jieba()
    return lambda text: jieba.tokenize(text, "search", True)


def pieces(cut: Segmenter, documents: pa.Array) -> Pieces:
    """Cut documents, which are strings or lists of strings."""
    words: list[str] = []
    positions: list[int] = []
    ends: list[int] = []
    for text in _texts(documents):
        for word, start, _ in cut(text) if text else ():
            words.append(word)
            positions.append(start)
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


def _require_usual_dictionary() -> None:
    """Raise an error if the reference would use another dictionary on this machine."""
    usual = Path.home() / ".local/share/lance/language_models"
    folder = Path(os.environ.get("LANCE_LANGUAGE_MODEL_HOME", usual)) / JIEBA
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
