"""`contains_tokens`: the same rows as the reference, with and without an index."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import pilum
from pilum.errors import FilterError
from pilum.expressions import bind_projection

TEXTS = [
    "The quick fox", "the foxes run", None, "", "x,y;z don't", "fox", "FOX quick", "x Ä ½", "a_b a",
    "running quick", "quick fox quick fox",
]  # fmt: skip
WANTED = ["fox", "quick fox", "fox, quick", "Fox", "the", "The", "run", "", " ;", "don", "t don"]
WANTED += ["Ä", "½ x", "b", "a_b", "running", "runn", "x y z", "fox fox"]


@pytest.mark.parametrize("arrow", [pa.string(), pa.large_string()])
def test_values_are_those_of_the_reference(tmp_path: Path, arrow: pa.DataType) -> None:
    lance.write_dataset(pa.table({"s": pa.array(TEXTS, arrow)}), tmp_path / "t")
    columns = {f"c{n}": f"contains_tokens(s, '{w}')" for n, w in enumerate(WANTED)}
    found = pilum.dataset(tmp_path / "t").to_table(columns=columns)
    expected = lance.dataset(tmp_path / "t").to_table(columns=columns)
    assert found.to_pydict() == expected.to_pydict()
    assert found.schema == expected.schema


@pytest.mark.parametrize("stem", [True, False])
def test_an_index_gives_the_same_rows(tmp_path: Path, stem: bool) -> None:
    table = pa.table({"s": TEXTS * 30, "n": range(30 * len(TEXTS))})
    dataset = pilum.write_dataset(table, tmp_path / "t", max_rows_per_file=100)
    dataset.create_scalar_index("s", "INVERTED", stem=stem)
    dataset.insert(table.slice(0, 20))
    dataset.delete("n % 7 = 3")
    is_used = False
    for wanted in WANTED:
        for form in ("{}", "not {}", "{} and n < 40", "{} or n = 4"):
            filter = form.format(f"contains_tokens(s, '{wanted}')")
            scanner = dataset.scanner(filter=filter, columns=["n"])
            is_used |= "@s_idx(Inverted)" in scanner.explain_plan()
            expected = dataset.to_table(filter=filter, columns=["n"], use_scalar_index=False)
            assert scanner.to_table() == expected, filter
    assert is_used
    reference = lance.dataset(tmp_path / "t")
    for wanted in WANTED:
        filter = f"contains_tokens(s, '{wanted}')"
        assert reference.count_rows(filter) == dataset.count_rows(filter), filter


def test_other_tokenizers_do_not_answer(tmp_path: Path) -> None:
    table = pa.table({"s": TEXTS * 30})
    dataset = pilum.write_dataset(table, tmp_path / "t")
    for tokenizer in ("whitespace", "raw", "ngram", "icu"):
        dataset.create_scalar_index("s", "INVERTED", base_tokenizer=tokenizer)
        scanner = dataset.scanner(filter="contains_tokens(s, 'don')")
        assert "s_idx" not in scanner.explain_plan()
        assert scanner.count_rows() == 30


def test_constants_and_refusals() -> None:
    schema = pa.schema({"s": pa.string(), "i": pa.int64()})
    batch = pa.record_batch([pa.array(["a"]), pa.array([1])], schema=schema)
    assert bind_projection("contains_tokens('a b', 'b')", schema).evaluate(batch)[0].as_py()
    for text, message in [
        ("contains_tokens(i, 'a')", "takes text"),
        ("contains_tokens(s, s)", "a text constant"),
        ("contains_tokens(s, null)", "must not be NULL"),
    ]:
        with pytest.raises(FilterError, match=message):
            bind_projection(text, schema).evaluate(batch)
