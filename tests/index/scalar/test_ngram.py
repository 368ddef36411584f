"""N-gram indices: the files that pylance writes for the same rows, and no row left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.errors import CorruptFileError, UnknownArgumentError, UnsupportedTypeError
from pilum.format.version import FileVersion
from pilum.index.base import REFERENCE, VALUE, IndexRows, Part
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.queries import HasTexts, IsNull
from pilum.index.scalar.ngram import NGRAM, Ngram
from pilum.storage.local import LocalStore

_FILE = "ngram_postings.lance"
_FRAGMENT = 1 << 32
_TEXTS = [
    "Hello world", "ÉCOLE naïve", "ﬁnal ﬁfth ½ x", "ab", "", None, "x-y abc", "straße STRASSE",
    "İstanbul", "日本語 abc", "a1b2c3", "\x00\x01abc", "no_trigram_here", "Ωmega 123",
]  # fmt: skip


def _rows(texts: Sequence[str | None], references: Sequence[int]) -> IndexRows:
    table = pa.table({VALUE: pa.array(texts, pa.string()), REFERENCE: pa.array(references, "u8")})
    return IndexRows(pa.string(), iter(table.to_batches(3)), len(texts))


def _trained(root: Path, name: str, rows: IndexRows) -> Ngram:
    folder = IndexFolderWriter(LocalStore(str(root)), name, FileVersion.V2_1)
    return NGRAM.open(folder.written(), NGRAM.train(rows, None, folder), 0)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_file_of_the_reference(tmp_path: Path, kind: pa.DataType) -> None:
    """The file has the schema, trigrams and posting lists that pylance writes."""
    table = pa.table({"s": pa.array(_TEXTS * 2, kind)})
    dataset = lance.write_dataset(table, tmp_path / "table", max_rows_per_file=15)
    dataset.create_scalar_index("s", "NGRAM")
    [index] = dataset.list_indices()
    store = LocalStore(str(tmp_path / "table"))
    expected = IndexFolder(store, f"_indices/{index['uuid']}").open(_FILE)
    references = [row // 15 * _FRAGMENT + row % 15 for row in range(len(table))]
    found = _trained(tmp_path, "own", _rows(_TEXTS * 2, references)).file
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.read().to_pylist() == expected.read().to_pylist()


_WORDS = st.none() | st.text("aAbBéÉ1 -", max_size=8)


@given(st.data(), st.lists(_WORDS, max_size=20))
def test_no_match_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, texts: list[str | None]
) -> None:
    """Every row with the text is in the answer, also after a merge that moves and drops rows."""
    root = tmp_path_factory.mktemp("ngram")
    references = data.draw(st.permutations([2 * row + row % 3 * _FRAGMENT for row in range(20)]))
    references = references[: len(texts)]
    wanted = HasTexts(tuple(data.draw(st.lists(st.text("abé1 -", max_size=4), min_size=1))))
    cut = data.draw(st.integers(0, len(texts)))
    whole = _trained(root, "whole", _rows(texts, references))
    first = _trained(root, "first", _rows(texts[:cut], references[:cut]))
    second = _trained(root, "second", _rows(texts[cut:], references[cut:]))
    folder = IndexFolderWriter(LocalStore(str(root)), "merged", FileVersion.V2_0)
    moved = Part(first, lambda rows: (rows + np.uint64(1), rows < _FRAGMENT))
    NGRAM.merge([moved, Part(second)], _rows(["ab1", None], [5 * _FRAGMENT] * 2), folder)
    merged = NGRAM.open(folder.written(), b"", 0)
    matches = {
        reference
        for reference, text in zip(references, texts, strict=True)
        if text is not None and all(one in text for one in wanted.texts)
    }
    after = {
        reference + (reference in references[:cut])
        for reference in matches
        if reference not in references[:cut] or reference < _FRAGMENT
    }
    if all(one in "ab1" for one in wanted.texts):
        after.add(5 * _FRAGMENT)
    for index, expected in ((whole, matches), (merged, after)):
        answer = index.search(wanted)
        if answer is None:
            assert index.estimate(wanted) is None
            continue
        assert not answer.is_exact
        assert expected <= set(answer.rows.listed.tolist())
        assert index.estimate(wanted) == len(answer.rows.listed)
        index.prewarm()
        again = index.search(HasTexts((*wanted.texts, "")))
        assert again is not None
        assert again.rows.listed.tolist() == answer.rows.listed.tolist()


def test_null_rows_are_stored(tmp_path: Path) -> None:
    """Token 0 lists the rows that are null, which only other types of index answer."""
    index = _trained(tmp_path, "x", _rows(["abc", None, None], [1, 2, 3]))
    assert index.tokens.tolist() == [0, 15516]
    assert index.search(IsNull()) is None
    assert index.statistics() == {"num_ngrams": 2}


def test_bad_input() -> None:
    """Other types and parameters are refused by name."""
    with pytest.raises(UnsupportedTypeError, match="NGRAM index column n must be a string"):
        NGRAM.require_supported("n", pa.int64())
    with pytest.raises(UnknownArgumentError, match="min_ngram_length"):
        NGRAM.parameters({"min_ngram_length": 3}, pa.string())


_TABLES: list[dict[str, Any]] = [
    {"tokens": pa.array([15516], pa.int32()), "posting_list": [b""]},
    {"tokens": pa.array([15516, 15516], pa.uint32()), "posting_list": [b"", b""]},
    {"tokens": pa.array([15516], pa.uint32()), "posting_list": pa.array(["x"])},
    {"tokens": pa.array([15516], pa.uint32()), "posting_list": [b"\xff" * 9]},
    {"tokens": pa.array([15516], pa.uint32()), "posting_list": pa.array([None], pa.binary())},
    {"tokens": pa.array([15516], pa.uint32())},
]


@pytest.mark.parametrize("columns", _TABLES)
def test_damage_is_named(tmp_path: Path, columns: dict[str, Any]) -> None:
    """Columns and posting lists that cannot be are errors that name the file."""
    folder = IndexFolderWriter(LocalStore(str(tmp_path)), "x", FileVersion.V2_1)
    folder.write(_FILE, pa.table(columns))
    with pytest.raises(CorruptFileError, match="ngram_postings"):
        NGRAM.open(folder.written(), b"", 0).search(HasTexts(("abc",)))
