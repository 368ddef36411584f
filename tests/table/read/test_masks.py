"""Filters on encoded pages: the same rows match as if all were decoded and tested by Arrow."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pilum
from pilum.container.fields import LeafSegment
from pilum.errors import CorruptFileError
from pilum.expressions import bind
from pilum.expressions.filter import SqlFilter
from pilum.table.read.masks import Masks

ROWS = 20_000
MODES = ["AIR", "MAIL", "RAIL", "SHIP", "TRUCK", ""]
DAY = datetime.date(1992, 1, 1)


def rows(seed: int = 7) -> pa.Table:
    """Columns for every encoding of pages, and conditions that match some of their rows."""
    draw = np.random.default_rng(seed)

    def some(share: float) -> Any:
        return draw.random(ROWS) < share

    def field(name: str, arrow: pa.DataType, **encoding: str) -> pa.Field:
        keys = {f"lance-encoding:{key}": value for key, value in encoding.items()}
        return pa.field(name, arrow, metadata=keys or None)

    floats = draw.choice([-0.0, 0.0, 0.5, np.nan, np.inf, -np.inf, -1.5], ROWS)
    small = draw.integers(0, 40, ROWS)
    texts = [f"the {a} fox jumps over {b} special dogs" for a, b in draw.integers(0, 99, (ROWS, 2))]
    wide = [f"{i % 7}" + "x" * 300 for i in range(ROWS)]
    inner = pa.array(small, mask=some(0.1))
    columns = {
        field("packed", pa.int32()): pa.array(small.astype(np.int32), mask=some(0.1)),
        field("signed", pa.int64()): pa.array(draw.integers(-20, 20, ROWS)),
        field("wide", pa.uint64()): pa.array(draw.integers(0, 2**63, ROWS, dtype=np.uint64)),
        field("runs", pa.int16()): pa.array(np.repeat(np.arange(ROWS // 50), 50).astype(np.int16)),
        field("float", pa.float64()): pa.array(floats, mask=some(0.05)),
        field("split", pa.float32(), bss="on", compression="lz4"): pa.array(
            floats.astype(np.float32)
        ),
        field("flag", pa.bool_()): pa.array(some(0.3), mask=some(0.1)),
        field("mode", pa.string()): pa.array(draw.choice(MODES, ROWS), mask=some(0.1)),
        field("text", pa.string()): pa.array(texts, mask=some(0.1)),
        field("plain", pa.large_string(), compression="none"): pa.array(texts, pa.large_string()),
        field("packed_text", pa.string(), compression="zstd"): pa.array(texts),
        field("long", pa.string()): pa.array(wide),
        field("day", pa.date32()): pa.array([DAY + datetime.timedelta(int(i)) for i in small]),
        field("cents", pa.decimal128(15, 2)): pa.array([Decimal(int(i)) / 4 for i in small]),
        field("price", pa.decimal128(15, 2)): pa.array(
            [Decimal(int(i)) / 4 for i in draw.integers(0, 4_000_000, ROWS)], mask=some(0.1)
        ),
        field("balance", pa.decimal128(15, 2)): pa.array(
            [Decimal(int(i)) / 4 for i in draw.integers(-4_000_000, -3_000_000, ROWS)]
        ),
        field("noise", pa.float64()): pa.array(draw.normal(size=ROWS)),
        field("moment", pa.timestamp("us")): pa.array(
            draw.integers(0, 2**42, ROWS), pa.timestamp("us")
        ),
        field("never", pa.int32()): pa.nulls(ROWS, pa.int32()),
        field("same", pa.int32()): pa.array(np.full(ROWS, 3, np.int32), mask=some(0.2)),
        field("s", pa.struct({"x": pa.int64()})): pa.StructArray.from_arrays(
            [inner], ["x"], mask=pa.array(some(0.1))
        ),
        field("page", pa.string()): pa.array([text * 9 for text in texts], mask=some(0.1)),
    }
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(list(columns)))


TABLE = rows()


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def dataset(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    path = tmp_path_factory.mktemp("masks") / "t"
    table = TABLE
    if request.param == "2.0":  # which has no null structs
        [chunk] = TABLE["s"].chunks
        structs = pa.StructArray.from_arrays([chunk.field("x")], fields=list(chunk.type))
        table = TABLE.set_column(TABLE.schema.names.index("s"), TABLE.field("s"), structs)
    made = pilum.write_dataset(
        table, path, max_rows_per_file=12_000, data_storage_version=request.param
    )
    made.delete("signed = 7 AND packed < 20")
    return made


@pytest.fixture(scope="module")
def whole(dataset: Any) -> pa.Table:
    read: pa.Table = dataset.to_table()
    return read


def matching(whole: pa.Table, text: str) -> pa.Table:
    """The rows for which Arrow says that a filter is true."""
    bound = bind(text, whole.schema)
    masks = [bound.mask(batch) for batch in whole.combine_chunks().to_batches()]
    return whole.filter(pa.chunked_array(masks))


def bits(table: pa.Table) -> pa.Table:
    """The same rows with the bits of floats, as Arrow's NaN differs from itself."""
    for name, kind in (("float", pa.int64()), ("split", pa.int32())):
        if name in table.schema.names:
            chunks = [chunk.view(kind) for chunk in table[name].chunks]
            column = pa.chunked_array(chunks, kind)
            table = table.set_column(table.schema.names.index(name), name, column)
    return table


CONDITIONS = [
    "packed = 5",
    "packed < 10",
    "packed > 100",
    "packed >= 0",
    "packed <> 7",
    "packed IN (1, 2, 3, 5, 8, 13, 21, 34, 36, 38)",
    "packed NOT IN (1, 2, NULL)",
    "packed IS NULL",
    "packed IS NOT NULL",
    "signed < 0",
    "signed BETWEEN -3 AND 3",
    "wide > 9000000000000000",
    "runs = 55",
    "runs BETWEEN 100 AND 150",
    "float > 0",
    "float = 0.0",
    "float IN (0.5, -1.5)",
    "NOT float < 1",
    "split <= 0.5",
    "flag",
    "NOT flag",
    "flag IS NULL",
    "mode = 'AIR'",
    "mode IN ('AIR', 'SHIP', 'NONE')",
    "mode NOT IN ('AIR', 'SHIP')",
    "mode < 'R'",
    "mode = ''",
    "text LIKE '%special%'",
    "text LIKE 'the 1%'",
    "text LIKE '%1 fox%9 special%'",
    "text NOT LIKE '%fox jumps over 9%'",
    "text LIKE '%7 special dogs'",
    "text = 'the 5 fox jumps over 12 special dogs'",
    "text <> 'the 5 fox jumps over 12 special dogs'",
    "text > 'the 5'",
    "contains(text, 'over 12')",
    "starts_with(plain, 'the 3')",
    "plain LIKE '%over 12 special dogs'",
    "plain = 'the 5 fox jumps over 12 special dogs'",
    "packed_text LIKE '%7 special%'",
    "long LIKE '3%'",
    "page LIKE '%over 12 special%'",
    "page NOT LIKE '%fox jumps over 9%'",
    "page IS NULL",
    "page IS NULL OR page < 'the 5'",
    "text LIKE 'the _ fox%2_ special dogs'",
    "plain NOT LIKE '%_9 fox%'",
    "mode LIKE 'A__'",
    "mode ILIKE 'r%'",
    "text ILIKE '%JUMPS over 1_ S%'",
    "text NOT ILIKE '%Over 1%'",
    "packed_text ILIKE 'THE 1_ %'",
    "packed = 1.5",
    "packed < 20.5",
    "packed <> 3.25",
    "runs > 40000",
    "runs < 40000",
    "signed >= -2.5",
    "noise > 0.75",
    "noise IN (0.5, 0.25) OR noise < -2",
    "moment < timestamp '1970-02-01 00:00:00'",
    "signed < 3 AND s IS NOT NULL",
    "mode = 'AIR' AND packed + signed > 9",
    "(packed < 9 AND upper(mode) = 'AIR') OR packed = 30",
    "day >= date '1992-01-20'",
    "cents BETWEEN 2.25 AND 5.5",
    "price < 1000",
    "price >= 999999.25 OR price IN (0, 3)",
    "price <> 5 AND price IS NOT NULL",
    "price < 42949673.0",
    "balance < -900000",
    "balance > 0 OR balance = -800000.25",
    "never IS NULL",
    "never = 1",
    "same = 3",
    "same <> 3",
    "s.x < 10",
    "s.x IS NULL",
    "s IS NULL",
    "packed + signed = 9",
    "upper(mode) = 'AIR'",
]


WITHOUT_MASKS = {
    "s IS NULL",
    "packed + signed = 9",
    "upper(mode) = 'AIR'",
    "plain NOT LIKE '%_9 fox%'",
    "text ILIKE '%JUMPS over 1_ S%'",
    "text NOT ILIKE '%Over 1%'",
}
WITH_REST = {
    "signed < 3 AND s IS NOT NULL",
    "mode = 'AIR' AND packed + signed > 9",
    "(packed < 9 AND upper(mode) = 'AIR') OR packed = 30",
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_one_condition(dataset: Any, whole: pa.Table, text: str) -> None:
    expected = matching(whole, text)
    assert bits(dataset.to_table(filter=text)).equals(bits(expected))
    assert dataset.to_table(["signed", "text"], text).equals(expected.select(["signed", "text"]))
    assert dataset.count_rows(text) == expected.num_rows


@pytest.mark.parametrize(
    ("expression", "has_rest"),
    [
        (pc.field("packed") == pa.scalar(5, pa.int32()), False),
        ((pc.field("packed") < pa.scalar(9, pa.int32())) & pc.field("mode").is_valid(), False),
        (pc.match_substring(pc.field("text"), "over 12"), False),
        (pc.field("float") > 0.0, True),
        ((pc.field("signed") + 1 == 4) & (pc.field("mode") == "AIR"), True),
    ],
)
def test_expressions_of_arrow(
    dataset: Any, whole: pa.Table, expression: pc.Expression, has_rest: bool
) -> None:
    expected = whole.filter(expression)
    assert bits(dataset.to_table(filter=expression)).equals(bits(expected))
    assert dataset.count_rows(expression) == expected.num_rows
    masks = Masks.of(dataset._snapshot, bind(expression, whole.schema), ())
    assert masks is not None
    assert (masks.rest is not None) == has_rest


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    together = st.lists(inner, min_size=2, max_size=4)
    return st.one_of(
        together.map(lambda parts: f"({' AND '.join(parts)})"),
        together.map(lambda parts: f"({' OR '.join(parts)})"),
        inner.map(lambda part: f"NOT ({part})"),
    )


@settings(max_examples=40)
@given(text=st.recursive(st.sampled_from(CONDITIONS), joined, max_leaves=6))
def test_conditions_on_several_columns(dataset: Any, whole: pa.Table, text: str) -> None:
    expected = matching(whole, text)
    assert dataset.count_rows(text) == expected.num_rows
    found = dataset.scanner(["mode", "signed"], text, with_row_address=True).to_table()
    assert found.select(["mode", "signed"]).equals(expected.select(["mode", "signed"]))


@pytest.mark.parametrize(("limit", "offset"), [(5, 0), (5, 3), (3000, 7000), (None, 9000), (0, 0)])
def test_limit_and_offset_count_matching_rows(
    dataset: Any, whole: pa.Table, limit: int, offset: int
) -> None:
    text = "packed < 30 AND mode <> 'AIR'"
    expected = matching(whole, text).slice(offset, limit)
    found = dataset.to_table(filter=text, limit=limit, offset=offset)
    assert bits(found).equals(bits(expected))


@pytest.mark.parametrize("kind", [np.uint16, np.int32, np.uint32, np.int64, np.uint64], ids=str)
@pytest.mark.parametrize("bits", [1, 7, 8, 9, 15, 16, 17, 31, 32])
def test_packed_numbers_of_all_widths(tmp_path: Path, kind: type[np.integer], bits: int) -> None:
    """Values that fit in fewer bits are tested as narrower words; some chunks are wider."""
    bits = min(bits, np.iinfo(kind).bits - 1)
    random = np.random.default_rng(bits)
    values = random.integers(0, 2**bits, 4500).astype(kind)
    values[2500] = np.iinfo(kind).max
    nulls = np.isin(np.arange(4500) // 7, [3, 4, 500])
    column = pa.array(values, mask=nulls)
    dataset = pilum.write_dataset(pa.table({"a": column}), tmp_path / "t")
    some = sorted({*random.choice(values, 40).tolist(), 3, 200, 256, 65_535, 65_536})
    half = 2 ** (bits - 1)
    for text, expected in {
        f"a < {half}": values < half,
        f"a >= {half} AND a <> {some[1]}": (values >= half) & (values != some[1]),
        f"a = {some[0]} OR a = 65536": np.isin(values, [some[0], 65_536]),
        f"a > -5 AND a < {2**bits}": values < 2**bits,
        f"a IN ({', '.join(map(str, some))})": np.isin(values, some),
        f"a NOT IN ({', '.join(map(str, some))})": ~np.isin(values, some),
    }.items():
        found = dataset.to_table(filter=text, with_row_id=True)["_rowid"].to_numpy()
        assert found.tolist() == np.flatnonzero(expected & ~nulls).tolist(), text
        assert dataset.count_rows(text) == len(found)
    assert dataset.count_rows("a IS NULL") == nulls.sum()
    assert dataset.count_rows(f"a IS NULL OR a < {half}") == (nulls | (values < half)).sum()


@pytest.mark.parametrize("kind", [pa.bool_(), pa.int8(), pa.uint8(), pa.int16()], ids=str)
@pytest.mark.parametrize("nulls", [0.0, 0.1])
def test_narrow_values_of_full_zip_pages(tmp_path: Path, kind: pa.DataType, nulls: float) -> None:
    draw = np.random.default_rng(1)
    values = draw.integers(0, 2, ROWS).astype(kind.to_pandas_dtype())
    array = pa.array(values, kind, mask=draw.random(ROWS) < nulls)
    options = pilum.EncodingOptions(structural_encoding="fullzip")
    dataset = pilum.write_dataset(pa.table({"a": array}), tmp_path / "t", encoding_options=options)
    one = "true" if kind == pa.bool_() else "1"
    is_one = pc.equal(array, pa.scalar(1).cast(kind))
    assert dataset.to_table(filter=f"a = {one}")["a"].combine_chunks() == array.filter(is_one)
    assert dataset.count_rows(f"a < {one}") == ROWS - array.null_count - is_one.true_count


@pytest.mark.parametrize("name", ["_rowid", "_rowaddr"])
def test_conditions_on_meta_columns_leave_the_others_to_pages(dataset: Any, name: str) -> None:
    read = dataset.to_table(with_row_id=True, with_row_address=True)
    for operator, expected in (
        ("AND", pc.and_(pc.greater(read[name], 9000), pc.less(read["packed"], 9))),
        ("OR", pc.or_kleene(pc.greater(read[name], 9000), pc.less(read["packed"], 9))),
    ):
        text = f"{name} > 9000 {operator} packed < 9"
        wanted = read.filter(expected)
        found = dataset.to_table(["signed", name], text)
        assert found.equals(wanted.select(["signed", name]))
        assert dataset.count_rows(text) == wanted.num_rows
    bound = bind(f"{name} > 9000 AND packed < 9", TABLE.schema)
    masks = Masks.of(dataset._snapshot, bound, ())
    assert masks is not None
    assert masks.names == ("packed",)
    assert masks.rest is not None
    assert masks.rest.columns == (name,)


def test_deleted_rows_are_counted_only_if_they_are_requested(dataset: Any, whole: pa.Table) -> None:
    text = "signed = 7"
    with_deleted = dataset.scanner(filter=text, include_deleted_rows=True, with_row_id=True)
    assert with_deleted.to_table().num_rows == matching(TABLE, text).num_rows
    assert dataset.count_rows(text) == matching(whole, text).num_rows


def test_batches_of_a_stream_have_the_same_rows(dataset: Any, whole: pa.Table) -> None:
    text = "text LIKE '%special%' AND packed BETWEEN 3 AND 30"
    batches = list(dataset.to_batches(filter=text, batch_size=500))
    assert max(batch.num_rows for batch in batches) <= 500
    expected = matching(whole, text)
    assert bits(pa.Table.from_batches(batches)).equals(bits(expected))


def test_a_count_decodes_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pilum.write_dataset(TABLE, tmp_path / "t")
    conditions = ["packed < 10", "mode = 'AIR'", "text LIKE '%fox%'", "runs = 3", "same = 3"]
    expected = [matching(TABLE, text).num_rows for text in conditions]

    def read_all(_: Any) -> None:
        raise AssertionError("values are decoded")

    monkeypatch.setattr(LeafSegment, "read_all", read_all)
    assert [made.count_rows(text) for text in conditions] == expected


def test_a_filter_that_pages_answer_has_no_rest(dataset: Any) -> None:
    snapshot = dataset._snapshot
    for text in CONDITIONS:
        bound = bind(text, TABLE.schema)
        masks = Masks.of(snapshot, bound, ())
        assert (masks is None) == (text in WITHOUT_MASKS)
        assert masks is None or (masks.rest is None) == (text not in WITH_REST)
    masks = Masks.of(snapshot, bind("packed = 1 AND upper(mode) = 'AIR'", TABLE.schema), ())
    assert masks is not None
    assert isinstance(masks.rest, SqlFilter)
    assert masks.rest.columns == ("mode",)


def test_a_filter_is_split_once_for_a_schema(dataset: Any) -> None:
    snapshot, bound = dataset._snapshot, bind("packed = 1 AND flag", TABLE.schema)
    masks = Masks.of(snapshot, bound, ("mode",))
    assert Masks.of(snapshot, bound, ("mode",)) is masks
    returned = Masks.of(snapshot, bound, ("flag", "mode"))
    assert masks is not None
    assert returned is not None
    assert (masks.is_read_again, returned.is_read_again) == (False, True)
    again = Masks.of(snapshot, pickle.loads(pickle.dumps(bound)), ())
    assert again is not None
    assert again is not masks
    assert again.names == masks.names


@pytest.mark.parametrize("place", ["files", "memory"])
@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_nested_rows_are_decoded_as_they_are_selected(
    tmp_path: Path, place: str, version: str
) -> None:
    draw = np.random.default_rng(5)
    numbers = [None if i % 7 == 3 else [None, *range(i % 4)] for i in range(ROWS)]
    words = [[f"{i}", None][: i % 3] for i in range(ROWS)]
    members = [{"a": i, "b": None if i % 5 == 0 else f"{i % 11}"} for i in range(ROWS)]
    table = pa.table(
        {
            "share": draw.permutation(ROWS) / ROWS,
            "numbers": pa.array(numbers, pa.list_(pa.int32())),
            "words": pa.array(words, pa.list_(pa.string())),
            "members": members,
            "vector": pa.array(draw.random((ROWS, 2)).tolist(), pa.list_(pa.float32(), 2)),
        }
    )
    folder = tmp_path / "t" if place == "files" else f"memory://nested-{version}"
    made = pilum.write_dataset(table, folder, max_rows_per_file=9_000, data_storage_version=version)
    made.delete("share < 0.001")
    live = table.filter(pc.greater_equal(table["share"], 0.001))
    for share in (0.02, 0.1, 0.29, 0.6, 0.97):
        expected = live.filter(pc.less(live["share"], share))
        assert made.to_table(filter=f"share < {share}").equals(expected)


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    folder = tmp_path_factory.mktemp("damaged") / "t"
    pilum.write_dataset(TABLE.select(DAMAGED), folder)
    [path] = (folder / "data").iterdir()
    return folder, path.read_bytes()


DAMAGED = ["packed", "runs", "mode", "text", "split", "flag", "s"]


@pytest.mark.seeds(40)
def test_damaged_pages_are_errors_or_have_the_rows_that_decoding_finds(
    whole_file: tuple[Path, bytes], seed: int
) -> None:
    folder, data = whole_file
    [path] = (folder / "data").iterdir()
    draw = np.random.default_rng(seed)
    damaged = bytearray(data)
    for place in draw.integers(0, len(data) - 4096, 1 + seed % 5):
        damaged[place] = draw.integers(256)
    path.write_bytes(damaged)
    for name, text in zip(DAMAGED, damaged_conditions(), strict=True):
        made = pilum.dataset(folder, session=pilum.Session())
        try:
            expected = matching(made.to_table([name]), text).num_rows
        except CorruptFileError:
            with suppress(CorruptFileError):
                made.count_rows(text)
        else:
            assert made.count_rows(text) == expected


def damaged_conditions() -> Iterator[str]:
    yield from ("packed < 20", "runs = 7", "mode = 'AIR'", "text LIKE '%fox%'")
    yield from ("split > 0", "flag", "s.x > 3")
