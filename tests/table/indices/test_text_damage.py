"""Damaged files of full-text indices: an error of a damaged file, or the right rows by a scan."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fuzz.mutate import mutate

import pilum
from pilum.errors import CorruptFileError, UnsupportedFeatureError
from pilum.query import FullTextQuery, MatchQuery, PhraseQuery

NUM_ROWS = 20


def made(path: Path, *, has_ids: bool = False) -> pilum.LanceDataset:
    """Returns a table of two fragments with an index; every row is a document of its own word."""
    texts = [f"fox den number{row}" for row in range(NUM_ROWS)]
    rows = pa.table({"i": range(NUM_ROWS), "s": texts})
    dataset = pilum.write_dataset(
        rows, str(path), max_rows_per_file=NUM_ROWS // 2, enable_stable_row_ids=has_ids
    )
    dataset.create_scalar_index("s", "INVERTED", with_position=True)
    return dataset


def found(path: Path, query: FullTextQuery) -> list[int]:
    """Returns the rows of a query, of a session without caches."""
    dataset = pilum.dataset(str(path), session=pilum.Session())
    rows: list[int] = dataset.to_table(["i", "_score"], full_text_query=query)["i"].to_pylist()
    return rows


@contextmanager
def replaced(path: Path, old: int, new: int) -> Iterator[None]:
    """Replaces a row reference in the file of documents."""
    [file] = path.glob("_indices/*/part_0_docs.lance")
    whole = file.read_bytes()
    was, now = (np.uint64(one).tobytes() for one in (old, new))
    assert whole.count(was) == 1
    file.write_bytes(whole.replace(was, now))
    yield
    file.write_bytes(whole)


SECOND = 1 << 32


@pytest.mark.parametrize(
    ("has_ids", "old", "new"),
    [
        (False, SECOND + 7, SECOND + 10),
        (False, SECOND + 7, 2 * SECOND + 7),
        (False, SECOND + 7, 10),
        (True, 17, NUM_ROWS),
    ],
)
def test_documents_that_are_no_rows(tmp_path: Path, has_ids: bool, old: int, new: int) -> None:
    """Documents of rows or fragments that do not exist are found before any of them is taken."""
    made(tmp_path / "t", has_ids=has_ids)
    with replaced(tmp_path / "t", old, new):
        for text in ("number17", "number3", "den"):
            with pytest.raises(CorruptFileError, match="are no rows of the table: 1"):
                found(tmp_path / "t", MatchQuery(text, "s"))
    assert found(tmp_path / "t", MatchQuery("number17", "s")) == [17]


@pytest.mark.parametrize(("has_ids", "old", "new"), [(False, SECOND + 7, 7), (True, 17, 16)])
def test_two_documents_of_one_row(tmp_path: Path, has_ids: bool, old: int, new: int) -> None:
    """The index is left out, and a warning names it; the rows are found by a scan."""
    made(tmp_path / "t", has_ids=has_ids)
    with (
        replaced(tmp_path / "t", old, new),
        pytest.warns(RuntimeWarning, match="two documents are of one row"),
    ):
        assert found(tmp_path / "t", MatchQuery("number17", "s")) == [17]


def test_deleted_fragments_that_are_no_bitmap(tmp_path: Path) -> None:
    """An empty value is no bitmap, and is not taken for one without fragments."""
    made(tmp_path / "t")
    [file] = (tmp_path / "t").glob("_indices/*/metadata.lance")
    whole, bitmap = file.read_bytes(), b"\x3a\x30\0\0\0\0\0\0"
    assert whole.count(bitmap) == 1
    file.write_bytes(whole.replace(bitmap, b"\xff" * 8))
    with pytest.warns(RuntimeWarning, match="deleted fragments"):
        assert found(tmp_path / "t", MatchQuery("number17", "s")) == [17]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damage") / "t"
    made(path)
    return path


@pytest.mark.seeds(30)
def test_mutated_bytes(table: Path, seed: int) -> None:
    """Any byte of any file: rows of the table, each once, or an error of a damaged file."""
    source = random.Random(seed)
    file = source.choice(sorted(table.glob("_indices/*/*.lance")))
    whole = file.read_bytes()
    file.write_bytes(mutate(whole, source))
    queries = [MatchQuery("fox number3", "s"), PhraseQuery("den number3", "s")]
    try:
        for query in (*queries, MatchQuery("nunber3", "s", fuzziness=1)):
            with suppress(CorruptFileError), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                rows = found(table, query)
                assert len(set(rows)) == len(rows)
                assert set(rows) <= set(range(NUM_ROWS))
    finally:
        file.write_bytes(whole)


def test_an_index_of_an_unknown_dictionary(tmp_path: Path) -> None:
    """It is left out, and the warning names what is not supported; it is not taken for damage."""
    dataset = pilum.write_dataset({"i": [1], "s": ["a fox"]}, str(tmp_path / "t"))
    dataset.create_scalar_index("s", "INVERTED", base_tokenizer="whitespace")
    [file] = (tmp_path / "t").glob("_indices/*/metadata.lance")
    whole, old = file.read_bytes(), b'"whitespace"'
    assert whole.count(old) == 1
    file.write_bytes(whole.replace(old, b'"lindera/ko"'))
    with pytest.warns(RuntimeWarning, match="'lindera/ko' needs a dictionary"):
        assert found(tmp_path / "t", MatchQuery("fox", "s")) == [1]
    with pytest.raises(UnsupportedFeatureError, match="'lindera/ko' needs a dictionary"):
        pilum.dataset(str(tmp_path / "t")).stats.index_stats("s_idx")
