"""Full-text queries of a table, compared with the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance.query
import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError
from pilum.query import DocumentGranularity, MatchQuery


@pytest.mark.parametrize("made", [None, "row", "list_element"])
def test_queries_that_say_what_a_document_is(tmp_path: Path, made: str | None) -> None:
    """Rows, scores and refusals are those of the reference."""
    lists = pa.table({"l": [["a b", "a"], ["b"], ["c a"]], "s": ["a", "b", "c"]})
    reference = lance.write_dataset(lists, tmp_path / "t")
    if made is not None:
        granularity = lance.query.DocumentGranularity(made)
        given: dict[str, Any] = {"stem": False, "remove_stop_words": False}
        reference.create_scalar_index("l", "INVERTED", document_granularity=granularity, **given)
    reference, dataset = lance.dataset(tmp_path / "t"), pilum.dataset(tmp_path / "t")
    for asked in ("row", "list_element"):
        own = MatchQuery("b", "l", document_granularity=DocumentGranularity(asked))
        theirs = lance.query.DocumentGranularity(asked)
        other = lance.query.MatchQuery("b", "l", document_granularity=theirs)
        columns = ["s", "_score", *(["_doc_index"] if asked == "list_element" else [])]
        if made not in {None, asked}:
            with pytest.raises(InvalidInputError, match=f"'{asked}', but those of the index 'l_"):
                dataset.to_table(full_text_query=own, columns=columns)
            with pytest.raises(ValueError, match="different granularity"):
                reference.to_table(full_text_query=other, columns=columns)
            continue
        found = dataset.to_table(full_text_query=own, columns=columns).to_pylist()
        expected = reference.to_table(full_text_query=other).select(columns)
        assert found == sorted(expected.to_pylist(), key=lambda row: -row["_score"])
    element = MatchQuery("b", "s", document_granularity=DocumentGranularity.LIST_ELEMENT)
    with pytest.raises(InvalidInputError, match="has no lists"):
        dataset.to_table(full_text_query=element)
