"""Checks of arguments, and signatures that list the keywords that a function passes on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.arguments import positions, require_count, require_known, with_keywords, with_positions
from pilum.errors import InvalidInputError
from pilum.fragment import write_fragments


class Keywords(TypedDict, total=False):
    size: int
    name: str | None
    place: str | None


def test_signatures_list_the_keywords_that_are_passed_on() -> None:
    @with_keywords(Keywords, {"size": 3}, without=("place",))
    def closed(first: int, **keywords: Unpack[Keywords]) -> None: ...

    @with_keywords(Keywords)
    def open_ended(first: int, name: str = "x", **others: Any) -> None: ...

    assert str(inspect.signature(closed)).replace("'", "") == (
        "(first: int, *, size: int = 3, name: str | None = None) -> None"
    )
    assert str(inspect.signature(open_ended)).replace("'", "").replace('"', "") == (
        "(first: int, name: str = x, *, size: int = None, place: str | None = None, "
        "**others: Any) -> None"
    )


def test_what_the_public_functions_list() -> None:
    def defaults(function: Callable[..., Any]) -> dict[str, Any]:
        return {name: one.default for name, one in inspect.signature(function).parameters.items()}

    write, insert = defaults(pilum.write_dataset), defaults(pilum.LanceDataset.insert)
    assert write["max_rows_per_file"] == insert["max_rows_per_file"] == 1 << 20
    assert write["enable_v2_manifest_paths"] is True
    assert write["commit_message"] is insert["commit_message"] is None
    assert "storage_options" not in insert
    scan = defaults(pilum.LanceDataset.scanner)
    assert set(scan) == set(defaults(pilum.LanceDataset.to_table))
    assert set(scan) - {"fragments"} == set(defaults(pilum.LanceFragment.to_batches))
    assert "fragments" in scan


def test_a_keyword_that_a_call_does_not_have(tmp_path: Path) -> None:
    table = pa.table({"a": [1]})
    dataset = pilum.write_dataset(table, tmp_path / "t")
    fragment = dataset.get_fragments()[0]
    wrong: dict[str, Any] = {"max_rows_per_fil": 1}
    calls: dict[str, Callable[[], Any]] = {
        "write_dataset": lambda: pilum.write_dataset(table, tmp_path / "u", **wrong),
        "insert": lambda: dataset.insert(table, **wrong),
        "write_fragments": lambda: write_fragments(table, tmp_path / "u", **wrong),
    }
    for name, call in calls.items():
        expected = f"{name} has no argument 'max_rows_per_fil'; did you mean 'max_rows_per_file'"
        with pytest.raises(TypeError, match=expected):
            call()
    with pytest.raises(TypeError, match="insert has no argument 'storage_options'"):
        dataset.insert(table, storage_options={})  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no argument 'fragments'"):
        fragment.to_table(fragments=[fragment])
    assert not (tmp_path / "u").exists()
    assert dataset.count_rows() == 1


def test_names_of_keywords() -> None:
    require_known("this has", ["a"], {"a", "b"})
    with pytest.raises(InvalidInputError, match=r"^this has no argument 'zzz'$"):
        require_known("this has", ["a", "zzz"], {"a", "b"})


@pytest.mark.parametrize("value", [True, "1", 1.0, None, -1, 2**63, 10**30])
def test_what_is_no_count(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="what: expected"):
        require_count("what", value)


def test_extreme_options(tmp_path: Path) -> None:
    """Values that Arrow, protobuf and the kernels refuse, each with an error of its own."""
    rows = pa.table({"n": range(300), "v": pa.array([[0.5] * 8] * 300, pa.list_(pa.float32(), 8))})
    dataset = pilum.write_dataset(rows, tmp_path / "t")
    for size in (2**63, 1.5, "1", [1]):
        with pytest.raises(InvalidInputError, match="max_rows_per_file: expected"):
            pilum.write_dataset(rows, tmp_path / "u", max_rows_per_file=size)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="rows_per_zone: expected at most"):
        dataset.create_scalar_index("n", "ZONEMAP", rows_per_zone=2**63)
    with pytest.raises(InvalidInputError, match="max_level: expected at most"):
        dataset.create_index("v", "IVF_HNSW_SQ", num_partitions=1, max_level=2**31)
    wrong: tuple[Any, ...] = (5, "1", [1])
    for fragments in wrong:
        with pytest.raises(InvalidInputError, match="fragments: expected those of"):
            dataset.scanner(fragments=fragments)


def test_counts_and_positions() -> None:
    assert require_count("what", np.int16(3), 3) == 3
    assert positions(pa.array([2, 0]), 3).tolist() == [2, 0]
    assert positions([], 0).tolist() == []
    for wrong in ([3], [-1], [0.5], pa.array([0, None])):
        with pytest.raises(InvalidInputError, match="indices: "):
            positions(wrong, 3)


def test_keywords_may_be_passed_by_position() -> None:
    @with_positions("second", "third")
    def function(first: int, *, third: int = 3, second: int = 2, fourth: int = 4) -> str:
        return f"{first} {second} {third} {fourth}"

    called: Any = function
    assert str(inspect.signature(called)).replace("'", "") == (
        "(first: int, second: int = 2, third: int = 3, *, fourth: int = 4) -> str"
    )
    assert called(1) == "1 2 3 4"
    assert called(1, 5) == "1 5 3 4"
    assert called(1, 5, 6, fourth=7) == "1 5 6 7"
    assert called(1, third=5) == "1 2 5 4"
    for arguments, keywords in (((1, 5), {"second": 6}), ((1, 5, 6, 7), {}), ((), {})):
        with pytest.raises(TypeError):
            called(*arguments, **keywords)
