"""Searches of nearest vectors without an index, against sums that numpy computes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import pilum
from pilum.dataset import ScannerBuilder
from pilum.errors import (
    ColumnNotFoundError,
    FilterError,
    InvalidInputError,
    UnknownArgumentError,
    UnsupportedTypeError,
)

VECTORS = np.random.default_rng(7).normal(size=(12, 3)).astype(np.float32)
TYPES = {
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
}


def vectors_of(values: Any, type: pa.DataType, dimension: int) -> pa.Array:
    """Returns vectors; a row is None or a list of numbers."""
    return pa.array(
        [None if row is None else np.asarray(row, type.to_pandas_dtype()) for row in values],
        pa.list_(type, dimension),
    )


def distances(vectors: NDArray[Any], query: NDArray[Any], metric: str) -> NDArray[np.float32]:
    """Returns distances by their definition, in double precision."""
    if metric == "hamming":
        bits = np.unpackbits(vectors ^ query, axis=1)
        return np.asarray(bits.sum(axis=1), np.float32)
    with np.errstate(all="ignore"):
        wide, own = vectors.astype(np.float64), query.astype(np.float64)
        if metric == "l2":
            found = ((wide - own) ** 2).sum(axis=1)
        elif metric == "dot":
            found = 1 - (wide * own).sum(axis=1)
        else:
            lengths = np.sqrt((wide**2).sum(axis=1)) * np.sqrt((own**2).sum())
            found = 1 - (wide * own).sum(axis=1) / lengths
        return np.asarray(found, np.float32)


def nearest_of(rows: NDArray[np.int64], found: NDArray[np.float32], k: int) -> list[int]:
    """Returns the nearest rows, of equal distances in order."""
    kept = ~np.isnan(found)
    rows, found = rows[kept], found[kept]
    return [int(row) for row in rows[np.lexsort((rows, found))[:k]]]


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    table = pa.table(
        {
            "id": range(12),
            "v": vectors_of(VECTORS, pa.float32(), 3),
            "s": [{"n": row, "t": "a" * row} for row in range(12)],
        }
    )
    return pilum.write_dataset(table, tmp_path / "t", max_rows_per_file=5)


def search(**more: Any) -> dict[str, Any]:
    return {"column": "v", "q": VECTORS[3], "k": 4, **more}


EXPECTED = nearest_of(np.arange(12), distances(VECTORS, VECTORS[3], "l2"), 4)


def test_rows_come_nearest_first_with_their_distance(dataset: pilum.LanceDataset) -> None:
    found = dataset.to_table(nearest=search())
    assert found.column_names == ["id", "v", "s", "_distance"]
    assert found.schema.field("_distance") == pa.field("_distance", pa.float32())
    assert found["id"].to_pylist() == EXPECTED
    assert found["v"].to_pylist() == VECTORS[EXPECTED].tolist()
    expected = distances(VECTORS[EXPECTED], VECTORS[3], "l2")
    np.testing.assert_allclose(found["_distance"].to_numpy(), expected, rtol=1e-6)
    assert dataset.scanner(nearest=search()).count_rows() == 4
    assert dataset.scanner(nearest=search()).projected_schema == found.schema


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (["id", "_distance"], ["id", "_distance"]),
        (["_distance", "s.n", "s.t"], ["_distance", "s.n", "s.t"]),
        (["_rowid", "_distance", "_rowaddr"], ["_rowid", "_distance", "_rowaddr"]),
        ({"d": "_distance + 1", "_distance": "_distance"}, ["d", "_distance"]),
    ],
)
def test_columns_are_returned_in_the_requested_order(
    dataset: pilum.LanceDataset, columns: Any, names: list[str]
) -> None:
    found = dataset.to_table(columns, nearest=search(), disable_scoring_autoprojection=True)
    assert found.column_names == names
    assert found.num_rows == 4


def test_values_belong_to_their_rows(dataset: pilum.LanceDataset) -> None:
    columns = ["s.n", "_rowid", "_distance"]
    found = dataset.to_table(columns, nearest=search(), with_row_address=True)
    assert found.column_names == [*columns, "_rowaddr"]
    assert found["s.n"].to_pylist() == EXPECTED
    assert found["_rowaddr"].to_pylist() == [(row // 5 << 32) + row % 5 for row in EXPECTED]
    assert found["_rowid"] == found["_rowaddr"]
    computed = dataset.to_table(
        {"twice": "id * 2"}, nearest=search(), disable_scoring_autoprojection=True
    )
    assert computed.to_pydict() == {"twice": [2 * row for row in EXPECTED]}


def test_the_distance_is_added_with_a_warning(dataset: pilum.LanceDataset) -> None:
    with pytest.warns(FutureWarning, match="_distance") as caught:
        found = dataset.to_table(["id"], nearest=search(), with_row_id=True)
    assert caught[0].filename == __file__
    assert found.column_names == ["id", "_distance", "_rowid"]
    with pytest.warns(FutureWarning, match="_distance"):
        found = dataset.to_table({"a": "id"}, nearest=search(), with_row_id=True)
    assert found.column_names == ["a", "_distance", "_rowid"]


def test_a_batch_of_queries_has_the_number_of_each(dataset: pilum.LanceDataset) -> None:
    queries = VECTORS[[3, 0]]
    found = dataset.to_table(nearest=search(q=queries))
    assert found.schema.field(0) == pa.field("query_index", pa.int32(), nullable=False)
    assert found.column_names == ["query_index", "id", "v", "s", "_distance"]
    assert found["query_index"].to_pylist() == [0] * 4 + [1] * 4
    second = nearest_of(np.arange(12), distances(VECTORS, VECTORS[0], "l2"), 4)
    assert found["id"].to_pylist() == EXPECTED + second
    computed = dataset.to_table(
        {"a": "id + query_index", "_distance": "_distance"},
        nearest=search(q=queries[:1]),
        disable_scoring_autoprojection=True,
        with_row_id=True,
    )
    assert computed.column_names == ["query_index", "a", "_distance", "_rowid"]
    assert computed["a"].to_pylist() == EXPECTED
    some = dataset.to_table(["id", "_distance"], nearest=search(q=queries), limit=2, offset=3)
    assert some["query_index"].to_pylist() == [0, 1]
    assert some["id"].to_pylist() == [EXPECTED[3], second[0]]


def test_a_batch_needs_the_name_of_its_column(tmp_path: Path) -> None:
    table = pa.table({"query_index": range(12), "v": vectors_of(VECTORS, pa.float32(), 3)})
    dataset = pilum.write_dataset(table, tmp_path / "t")
    assert dataset.to_table(nearest=search())["query_index"].to_pylist() == EXPECTED
    with pytest.raises(InvalidInputError, match="query_index"):
        dataset.to_table(nearest=search(q=VECTORS[:2]))


def test_a_stored_column_gives_way_to_the_distance(tmp_path: Path) -> None:
    table = pa.table({"_distance": range(12), "v": vectors_of(VECTORS, pa.float32(), 3)})
    dataset = pilum.write_dataset(table, tmp_path / "t")
    found = dataset.to_table(nearest=search())
    assert found.column_names == ["v", "_distance"]
    assert found["_distance"][0].as_py() == 0


def test_filters(dataset: pilum.LanceDataset) -> None:
    columns = ["id", "_distance"]
    after = dataset.to_table(columns, nearest=search(), filter="id > 4")
    assert after["id"].to_pylist() == [row for row in EXPECTED if row > 4]
    before = dataset.to_table(columns, nearest=search(), filter="id > 4", prefilter=True)
    rows = np.arange(5, 12)
    expected = nearest_of(rows, distances(VECTORS[rows], VECTORS[3], "l2"), 4)
    assert before["id"].to_pylist() == expected
    near = dataset.to_table(columns, nearest=search(), filter="_distance > 0 AND id < 100")
    assert near["id"].to_pylist() == EXPECTED[1:]
    with pytest.raises(ColumnNotFoundError, match="_distance"):
        dataset.to_table(columns, nearest=search(), filter="_distance > 0", prefilter=True)
    with pytest.raises(FilterError):
        dataset.to_table(columns, nearest=search(), filter="id >")


def test_limit_and_offset_count_after_the_filter(dataset: pilum.LanceDataset) -> None:
    columns = ["id", "_distance"]
    every = dataset.to_table(columns, nearest=search(k=12), filter="id > 4")["id"].to_pylist()
    some = dataset.to_table(columns, nearest=search(k=12), filter="id > 4", limit=2, offset=3)
    assert some["id"].to_pylist() == every[3:5]
    assert dataset.to_table(columns, nearest=search(), limit=0).num_rows == 0
    assert dataset.to_table(columns, nearest=search(), limit=9, offset=3).num_rows == 1
    assert dataset.to_table(columns, nearest=search(), offset=9).num_rows == 0


def test_fragments_and_order(dataset: pilum.LanceDataset) -> None:
    last = dataset.get_fragments()[1:]
    rows = np.arange(5, 12)
    expected = nearest_of(rows, distances(VECTORS[rows], VECTORS[3], "l2"), 4)
    for prefilter in (False, True):
        found = dataset.to_table(
            ["id", "_distance"], nearest=search(), fragments=last, prefilter=prefilter
        )
        assert found["id"].to_pylist() == expected
    ordered = dataset.to_table(["_distance", "id"], nearest=search(), order_by="id")
    assert ordered["id"].to_pylist() == sorted(EXPECTED)


def test_batches_have_the_requested_size(dataset: pilum.LanceDataset) -> None:
    batches = list(dataset.to_batches(nearest=search(), batch_size=3))
    assert [batch.num_rows for batch in batches] == [3, 1]
    whole = pa.Table.from_batches(batches)
    assert whole.equals(dataset.to_table(nearest=search()))
    assert dataset.head(2, nearest=search()).equals(whole.slice(0, 2))


def test_steps_are_explained(dataset: pilum.LanceDataset) -> None:
    nearest = search(q=VECTORS[:2], distance_range=(0.5, 9), metric="Cosine")
    scanner = dataset.scanner(["_distance"], nearest=nearest, filter="id > 1", prefilter=True)
    steps = [step.strip() for step in scanner.explain_plan().splitlines()]
    assert steps[0] == (
        "Nearest: 2 queries, column v, k 4, metric cosine, distance at least 0.5, "
        "distance less than 9, prefilter"
    )
    assert steps[1].startswith("ExactSearch")
    assert "rows=8" in dataset.scanner(nearest=search(q=VECTORS[:2])).analyze_plan()


def test_a_builder_sets_the_search(dataset: pilum.LanceDataset) -> None:
    scanner = ScannerBuilder(dataset).nearest("v", VECTORS[3], 4, metric="l2").to_scanner()
    assert scanner.to_table()["id"].to_pylist() == EXPECTED


@pytest.mark.parametrize(
    "query",
    [
        VECTORS[3].tolist(),
        VECTORS[3].astype(np.float64),
        tuple(VECTORS[3].tolist()),
        pa.array(VECTORS[3]),
        pa.scalar(VECTORS[3].tolist(), pa.list_(pa.float32(), 3)),
    ],
)
def test_queries_have_many_forms(dataset: pilum.LanceDataset, query: Any) -> None:
    found = dataset.to_table(["id", "_distance"], nearest=search(q=query))
    assert found["id"].to_pylist() == EXPECTED
    assert found["_distance"][0].as_py() == 0


@pytest.mark.parametrize("multiple", [2, 3, 100])
def test_k_may_exceed_the_rows(dataset: pilum.LanceDataset, multiple: int) -> None:
    found = dataset.to_table(["id", "_distance"], nearest=search(k=12 * multiple))
    assert sorted(found["id"].to_pylist()) == list(range(12))


def test_empty_tables_have_no_rows(tmp_path: Path) -> None:
    table = pa.table({"v": vectors_of(VECTORS, pa.float32(), 3)}).slice(0, 0)
    dataset = pilum.write_dataset(table, tmp_path / "t")
    found = dataset.to_table(nearest=search())
    assert (found.num_rows, found.column_names) == (0, ["v", "_distance"])
    batch = dataset.to_table(nearest=search(q=VECTORS[:2]))
    assert (batch.num_rows, batch.column_names) == (0, ["query_index", "v", "_distance"])


def test_deleted_rows_are_not_found(dataset: pilum.LanceDataset) -> None:
    dataset.delete(f"id IN ({EXPECTED[0]}, {EXPECTED[2]})")
    rows = np.setdiff1d(np.arange(12), [EXPECTED[0], EXPECTED[2]])
    expected = nearest_of(rows, distances(VECTORS[rows], VECTORS[3], "l2"), 4)
    assert dataset.to_table(nearest=search())["id"].to_pylist() == expected
    with pytest.raises(InvalidInputError, match="deleted"):
        dataset.to_table(nearest=search(), include_deleted_rows=True, with_row_id=True)


def test_rows_keep_their_ids(tmp_path: Path) -> None:
    table = pa.table({"id": range(12), "v": vectors_of(VECTORS, pa.float32(), 3)})
    dataset = pilum.write_dataset(
        table, tmp_path / "t", max_rows_per_file=5, enable_stable_row_ids=True
    )
    dataset.delete("id = 1")
    dataset.optimize.compact_files()
    found = dataset.to_table(nearest=search(), with_row_id=True, filter="id != 1", prefilter=True)
    assert found["_rowid"].to_pylist() == found["id"].to_pylist()
    rows = np.setdiff1d(np.arange(12), [1])
    expected = nearest_of(rows, distances(VECTORS[rows], VECTORS[3], "l2"), 4)
    assert found["id"].to_pylist() == expected


def test_equal_distances_come_in_the_order_of_rows(tmp_path: Path) -> None:
    same = np.tile(VECTORS[:2], (50, 1))
    table = pa.table({"id": range(100), "v": vectors_of(same, pa.float32(), 3)})
    dataset = pilum.write_dataset(table, tmp_path / "t", max_rows_per_file=30)
    found = dataset.to_table(nearest=search(q=VECTORS[0], k=30))
    assert found["id"].to_pylist() == list(range(0, 60, 2))


def test_members_of_structs_and_tensors_are_searched(tmp_path: Path) -> None:
    vectors = vectors_of(VECTORS, pa.float32(), 3)
    tensor = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [3]), vectors)
    inner = pa.StructArray.from_arrays([vectors], ["v"])
    mask = pa.array([row == EXPECTED[0] for row in range(12)])
    table = pa.table(
        {
            "id": range(12),
            "s": pa.StructArray.from_arrays([inner], ["inner"], mask=mask),
            "t": tensor,
        }
    )
    dataset = pilum.write_dataset(table, tmp_path / "t", max_rows_per_file=5)
    found = dataset.to_table(["id", "_distance"], nearest=search(column="s.inner.v", k=3))
    assert found["id"].to_pylist() == EXPECTED[1:]
    found = dataset.to_table(["id", "_distance"], nearest=search(column="t"))
    assert found["id"].to_pylist() == EXPECTED


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"k": 0}, "Nearest-K must be > 0 but got 0"),
        ({"k": -1}, "Nearest-K must be > 0 but got -1"),
        ({"k": 2.5}, "k: expected an integer"),
        ({"k": True}, "k: expected an integer"),
        ({"q": [1.0, 2.0]}, "Query vector size 2 does not match index column size 3"),
        ({"q": [1.0] * 6}, "Query vector size 6 does not match index column size 3"),
        ({"q": []}, "query for column 'v'"),
        ({"q": "abc"}, "query for column 'v'"),
        ({"q": [[1.0, 2.0, 3.0], [1.0]]}, "query for column 'v'"),
        ({"q": None}, "'q' is missing"),
        ({"column": None}, "'column' is missing"),
        ({"column": 7}, "expected the name of a column"),
        ({"metric": "l3"}, "l3"),
        ({"metric": "hamming"}, "hamming is for uint8"),
        ({"nprobes": 0}, "Nprobes must be > 0 but got 0"),
        ({"minimum_nprobes": -1}, "Minimum nprobes must be >= 0 but got -1"),
        ({"maximum_nprobes": -1}, "Maximum nprobes must be >= 0 but got -1"),
        (
            {"minimum_nprobes": 3, "maximum_nprobes": 2},
            "minimum_nprobes must be <= maximum_nprobes",
        ),
        ({"nprobes": 3, "maximum_nprobes": 2}, "minimum_nprobes must be <= maximum_nprobes"),
        ({"nprobes": 3, "minimum_nprobes": 5}, "minimum_nprobes must be <= maximum_nprobes"),
        ({"refine_factor": 0}, "Refine factor must be 1 or more got 0"),
        ({"ef": 0}, "ef must be > 0 but got 0"),
        ({"query_parallelism": -2}, "query_parallelism must be >= -1"),
        ({"approx_mode": "x"}, "approx_mode must be one of"),
        ({"search_effort": 1.5}, "search_effort must be finite"),
        ({"search_effort": float("nan")}, "search_effort must be finite"),
        ({"distance_range": (1, 2, 3)}, "distance_range must be a tuple of"),
        ({"distance_range": "ab"}, "distance_range must be a tuple of"),
        ({"distance_range": ("a", None)}, "distance_range: expected numbers"),
        ({"distance_range": (float("nan"), None)}, "distance_range: a limit is NaN"),
    ],
)
def test_bad_searches_are_named(
    dataset: pilum.LanceDataset, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message.replace("(", r"\(")):
        dataset.scanner(nearest=search(**more))


@pytest.mark.parametrize("type", [pa.uint8(), pa.int8()])
@pytest.mark.parametrize("query", [[300, 0], [-129, 0], [0.5, 0], [float("nan"), 0]])
def test_queries_of_bytes_are_integers(tmp_path: Path, type: pa.DataType, query: Any) -> None:
    table = pa.table({"v": vectors_of([[1, 2], [3, 4]], type, 2)})
    dataset = pilum.write_dataset(table, tmp_path / "t")
    assert dataset.to_table(nearest=search(q=[3.0, 4.0]))["_distance"][0].as_py() == 0
    with pytest.raises(InvalidInputError, match="expected integers from"):
        dataset.to_table(nearest=search(q=query))


def test_errors_of_names_and_types(dataset: pilum.LanceDataset) -> None:
    with pytest.raises(ColumnNotFoundError, match="nearest"):
        dataset.scanner(nearest=search(column="w"))
    with pytest.raises(UnsupportedTypeError, match="column 'id' has type int64"):
        dataset.scanner(nearest=search(column="id"))
    with pytest.raises(UnknownArgumentError, match="did you mean 'nprobes'"):
        dataset.scanner(nearest=search(nprobe=1))
    with pytest.raises(InvalidInputError, match="expected a dict"):
        dataset.scanner(nearest="v")
    with pytest.raises(InvalidInputError, match="Cannot have both"):
        dataset.scanner(nearest=search(), full_text_query="a")


ELEMENTS = {"f": st.integers(-3, 3).map(float), "i": st.integers(-3, 3), "u": st.integers(0, 255)}
SPECIAL = st.sampled_from([float("nan"), float("inf"), float("-inf")])


@given(data=st.data())
def test_every_search_finds_the_nearest(tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(TYPES)))
    kind = np.dtype(name).kind
    dimension = data.draw(st.sampled_from([1, 3, 8, 17]))
    metric = data.draw(
        st.just("hamming") if kind == "u" else st.sampled_from(["l2", "cosine", "dot"])
    )
    element = ELEMENTS[kind]
    vector = st.lists(element, min_size=dimension, max_size=dimension)
    with_special = st.tuples(vector, SPECIAL).map(lambda one: [one[1], *one[0][1:]])
    row = st.one_of(vector, vector, vector, st.none(), *([with_special] if kind == "f" else []))
    rows = data.draw(st.lists(row, max_size=30))
    query = np.array(data.draw(vector), name)
    k = data.draw(st.integers(1, 35))
    lowest = data.draw(st.none() | st.integers(-10, 10))
    highest = data.draw(st.none() | st.integers(0, 40))
    deleted = data.draw(st.sets(st.integers(0, 29), max_size=5))
    least = data.draw(st.integers(0, 10))

    table = pa.table({"id": range(len(rows)), "v": vectors_of(rows, TYPES[name], dimension)})
    dataset = pilum.write_dataset(table, tmp_path / "t", mode="overwrite", max_rows_per_file=11)
    dataset.delete(f"id IN ({', '.join(map(str, deleted)) or -1})")
    found = dataset.to_table(
        ["id", "_distance"],
        nearest={
            "column": "v",
            "q": query,
            "k": k,
            "metric": metric,
            "distance_range": (lowest, highest),
        },
        filter=f"id >= {least}",
        prefilter=True,
    )

    ids = [n for n, one in enumerate(rows) if one is not None and n >= least and n not in deleted]
    values = np.array([rows[n] for n in ids], name).reshape(len(ids), dimension)
    exact = distances(values, query, metric)
    expected = dict(zip(ids, exact.tolist(), strict=True))
    pairs = zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True)
    mine: dict[int, float] = dict(pairs)
    for n, distance in mine.items():
        assert distance == pytest.approx(expected[n], abs=1e-6)
    assert list(mine) == [n for n, _ in sorted(mine.items(), key=lambda one: (one[1], one[0]))]
    slack = 1e-6 if metric == "cosine" else 0  # of rounding; the others are whole numbers
    low = -np.inf if lowest is None else lowest
    high = np.inf if highest is None else highest
    certain = [
        d
        for d in expected.values()
        if low + slack <= d < high - slack or (highest is None and d == np.inf and low <= d)
    ]
    possible = [
        d
        for d in expected.values()
        if low - slack <= d < high + slack or (highest is None and d == np.inf)
    ]
    assert min(k, len(certain)) <= len(mine) <= min(k, len(possible))
    if 0 < len(mine) < len(certain):
        others = [d for n, d in expected.items() if n not in mine and low + slack <= d]
        assert max(mine.values()) <= min(others, default=np.inf) + slack


def test_prepared_searches_find_the_same(dataset: pilum.LanceDataset) -> None:
    scans: list[dict[str, Any]] = [
        {},
        {"columns": ["id", "_distance", "_rowid"]},
        {"columns": ["_rowid", "_distance"], "with_row_address": True},
        {"columns": ["id", "_distance"], "filter": "id > 4"},
        {"columns": ["id", "_distance"], "filter": "id > 4", "prefilter": True, "limit": 2},
    ]
    for scan in scans:
        prepared = dataset.prepare_nearest("v", k=4, metric="cosine", **scan)
        for query in (*VECTORS[:3], VECTORS[:2]):
            expected = dataset.to_table(nearest=search(q=query, metric="cosine"), **scan)
            assert prepared.search(query).equals(expected)
        assert prepared.schema == prepared.search(VECTORS[0]).schema
        with pytest.raises(InvalidInputError, match="Query vector size 2"):
            prepared.search([1.0, 2.0])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"q": [1.0] * 3}, "pass the query to `search`"),
        ({"k": 0}, "Nearest-K"),
        ({"columns": {"a": "id"}, "disable_scoring_autoprojection": True}, "use scanner"),
        ({"order_by": "id"}, "use scanner"),
    ],
)
def test_bad_prepared_searches_are_named(
    dataset: pilum.LanceDataset, keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        dataset.prepare_nearest("v", **keywords)


def test_searching_imports_no_pandas(tmp_path: Path) -> None:
    """Which takes longer, and more memory, than all the rest of a first search."""
    vectors = np.random.default_rng(3).normal(size=(256, 8)).astype(np.float32)
    table = pa.table({"id": range(256), "v": vectors_of(vectors, pa.float32(), 8)})
    places = []
    for kind in ("IVF_PQ", "IVF_RQ", "IVF_HNSW_SQ"):
        places.append(str(tmp_path / kind))
        given: dict[str, Any] = {}
        if "PQ" in kind:
            given = {"num_sub_vectors": 2, "num_bits": 4, "sample_rate": 16}
        pilum.write_dataset(table, places[-1]).create_index("v", kind, num_partitions=2, **given)
    code = f"""
import sys, numpy, pilum
scans = [{{}}, {{"filter": "id > 5", "prefilter": True}}, {{"filter": "id < 256"}}]
for place in {places!r}:
    for scan in scans:
        for more in ({{}}, {{"refine_factor": 2}}, {{"use_index": False}}):
            nearest = {{"column": "v", "q": numpy.zeros(8), "k": 3, **more}}
            assert pilum.dataset(place).to_table(nearest=nearest, **scan).num_rows == 3
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
