"""Filters by indices: the same rows as a scan, whatever the indices cover and however they answer.

The indices here are naive ones: they look at every value. So these tests check how filters are
split, and how answers are combined, read and tested again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

import pilum
from pilum.errors import CorruptFileError
from pilum.expressions import bind
from pilum.format.pb import table_pb2
from pilum.index.answers import Answer, RowSet
from pilum.index.queries import Between, HasTexts, IsIn, IsNull, Query, StartsWith
from pilum.table.indices import selecting
from pilum.table.indices.index_use import IndexUse
from pilum.table.indices.use import with_selection
from pilum.table.read.scan import ScanOptions, count_rows, scan_table
from pilum.table.read.snapshot import Snapshot

NAN, NEGATIVE_NAN = struct.unpack("<dd", bytes.fromhex("000000000000f87f000000000000f8ff"))
INTEGERS = [None, -2, -1, 0, 1, 2, 3]
FLOATS = [None, NEGATIVE_NAN, float("-inf"), -1.0, -0.0, 0.0, 1.5, float("inf"), NAN]
TEXTS = [None, "", "a", "ab", "abc", "b", "ba", "a_c", "%"]
VALUES = {"i": INTEGERS, "f": FLOATS, "s": TEXTS, "b": [None, True, False], "u": INTEGERS}
TYPES = {"i": pa.int32(), "f": pa.float64(), "s": pa.string(), "b": pa.bool_(), "u": pa.int64()}


def key(value: Any) -> Any:
    """Return something that is ordered and equal as the values of indices are."""
    if not isinstance(value, float):
        return value
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return bits if bits >= 0 else bits ^ (2**63 - 1)


def is_match(query: Query, value: Any) -> bool | None:
    if isinstance(query, IsNull):
        return value is None
    if value is None:
        return None
    match query:
        case IsIn(values=values):
            return key(value) in {key(one) for one in values.to_pylist()}
        case Between(low=low, high=high, includes_low=first, includes_high=last):
            is_after = low is None or key(value) > key(low.as_py())
            is_before = high is None or key(value) < key(high.as_py())
            is_first = low is not None and first and key(value) == key(low.as_py())
            is_last = high is not None and last and key(value) == key(high.as_py())
            return (is_after or is_first) and (is_before or is_last)
        case StartsWith(prefix=prefix):
            return bool(value.startswith(prefix))
        case HasTexts(texts=texts):
            return all(text in value for text in texts)
    raise AssertionError(query)


@dataclass
class Entry:
    uuid: str = "a-uuid"
    kind: str = "Naive"


@dataclass
class NaiveIndex:
    """A segment that looks at every value.

    Attributes:
        snapshot: The version.
        rows: Address and value of each row.
        fragments: The fragments that it covers.
        extra: Values of which a superset of the matching rows consists, or None for exact answers.
        answers: The kinds of queries that it answers.
        as_complement: Whether answers list the other rows.
    """

    snapshot: Snapshot
    rows: list[tuple[int, Any]]
    fragments: BitMap
    extra: set[Any] | None
    answers: tuple[type[Query], ...]
    as_complement: bool
    name: str = "naive"
    damage: bool = False

    @property
    def segment(self) -> NaiveIndex:
        return self

    @property
    def index(self) -> NaiveIndex:
        return self

    entry = Entry()

    def estimate(self, query: Query) -> int | None:
        return 5 if isinstance(query, self.answers) else None

    def search(self, query: Query) -> Answer | None:
        if self.damage:
            raise CorruptFileError("a broken page")
        found = {address: is_match(query, value) for address, value in self.rows}
        if self.extra is not None:
            more = {address for address, value in self.rows if value in self.extra}
            rows = self._set(lambda address: bool(found[address]) or address in more)
            return Answer(rows, is_exact=False)
        rows = self._set(lambda address: found[address] is True)
        return Answer(rows, self._set(lambda address: found[address] is None))

    def _set(self, belongs: Callable[[int], bool]) -> RowSet:
        wanted = [address for address, _ in self.rows if belongs(address) != self.as_complement]
        return RowSet(np.array(wanted, np.uint64), self.as_complement)


def conditions() -> st.SearchStrategy[str]:
    integers = st.sampled_from(["-2", "0", "1", "3"])
    floats = st.sampled_from(["-1.0", "0.0", "1.5", "-0.0", "cast('inf' as double)"])
    texts = st.sampled_from(["''", "'a'", "'ab'", "'b'"])
    operators = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    patterns = st.sampled_from(["a%", "%a%", "a_c%", "%b", "ab", "%", "a%c", r"a\_c", ""])
    compared = [
        st.builds("{} {} {}".format, st.just(column), operators, values)
        for column, values in [("i", integers), ("f", floats), ("s", texts), ("u", integers)]
    ]
    tested = st.sampled_from(
        [
            "b", "b is true", "b is not true", "b = false", "b is false",
            "i is null", "f is not null", "s is null", "i % 2 = 0", "length(s) = 2",
            "i is distinct from 1", "i is distinct from null", "f <=> 0.0", "(i = 1) is null",
            "i in (1, 2, 3)", "i not in (0, 1)", "f in (0.0, 1.5)", "i in (1, null)",
            "i not in (1, null)", "s in ('a', 'ab')", "i = null", "i < 2.5", "u = 1.0",
            "starts_with(s, 'a')", "ends_with(s, 'b')", "contains(s, 'b')",
            "regexp_match(s, 'a.*c')", "regexp_like(s, 'b|c')", "i > 1 and i < 1", "true", "null",
        ]
    )  # fmt: skip
    like = st.builds("s {} '{}'".format, st.sampled_from(["like", "not like", "ilike"]), patterns)
    simple = st.one_of(*compared, tested, like)
    return st.recursive(
        simple,
        lambda inner: st.one_of(
            st.builds("({} and {})".format, inner, inner),
            st.builds("({} or {})".format, inner, inner),
            st.builds("(not {})".format, inner),
            st.builds("(({}) is not true)".format, inner),
        ),
        max_leaves=6,
    )


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Return a table of five fragments with deleted rows; its manifest lists an index on all."""
    random = np.random.default_rng(7)
    rows = {name: random.integers(0, len(values), 90) for name, values in VALUES.items()}
    columns = {
        name: pa.array([VALUES[name][place] for place in places], TYPES[name])
        for name, places in rows.items()
    }
    path = tmp_path_factory.mktemp("tables") / "t"
    table = pilum.write_dataset(pa.table(columns), path, max_rows_per_file=20)
    table.delete("i = 2 and s is not null")
    found: Snapshot = table.snapshot
    entry = table_pb2.IndexMetadata(fields=[field.id for field in found.schema.fields])
    entry.uuid.uuid = bytes(16)
    section = table_pb2.IndexSection(indices=[entry]).SerializeToString()
    return replace(found, manifest=replace(found.manifest, index_section=section))


ALL_QUERIES: tuple[type[Query], ...] = (IsIn, Between, IsNull, StartsWith, HasTexts)


@st.composite
def segments(draw: st.DrawFn, column: str) -> list[dict[str, Any]]:
    """Draw the segments of some indices on a column."""
    found = []
    for name in draw(st.lists(st.sampled_from(["x", "y"]), max_size=2, unique=True)):
        kinds = draw(st.lists(st.sampled_from(ALL_QUERIES), min_size=1, unique=True))
        for fragments in draw(st.sampled_from([[[0, 1, 2, 3, 4]], [[0, 2]], [[1], [2, 3]]])):
            extra = draw(st.none() | st.sets(st.sampled_from([0, 1, 1.5, "a", "b", True])))
            answers = draw(st.just(ALL_QUERIES) | st.just(tuple(kinds)))
            spec = {"name": f"{column}_{name}", "fragments": BitMap(fragments), "extra": extra}
            found.append(spec | {"answers": answers, "as_complement": draw(st.booleans())})
    return found


def naive(snapshot: Snapshot, column: str, specs: list[dict[str, Any]]) -> list[NaiveIndex]:
    stored = scan_table(snapshot, ScanOptions((column, "_rowaddr")))
    pairs = list(zip(stored["_rowaddr"].to_pylist(), stored[column].to_pylist(), strict=True))
    gone = (9 << 32, VALUES[column][1])  # a row of a fragment that does not exist any more
    return [
        NaiveIndex(
            snapshot,
            [*(pair for pair in pairs if pair[0] >> 32 in spec["fragments"]), gone],
            **spec,
        )
        for spec in specs
    ]


@pytest.fixture
def use(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, list[NaiveIndex]]], None]:
    def install(indices: dict[str, list[NaiveIndex]]) -> None:
        monkeypatch.setattr(selecting, "open_segments", lambda _, path: indices.get(path, []))
        monkeypatch.setattr(selecting, "_is_worth_it", lambda *_: True)

    return install


@given(
    filter=conditions(),
    specs=st.fixed_dictionaries({name: segments(name) for name in VALUES}),
    limit=st.sampled_from([None, 0, 3]),
    offset=st.sampled_from([0, 2]),
)
def test_indices_do_not_change_the_rows(
    snapshot: Snapshot,
    filter: str,
    specs: dict[str, list[dict[str, Any]]],
    limit: int | None,
    offset: int,
) -> None:
    bound = bind(filter, snapshot.schema.arrow)
    names = ("i", "s", "_rowaddr")
    indices = {name: naive(snapshot, name, found) for name, found in specs.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selecting, "open_segments", lambda _, path: indices.get(path, []))
        patch.setattr(selecting, "_is_worth_it", lambda *_: True)
        for columns in (names, ("_rowid",), ()):
            plain = ScanOptions(columns, filter=bound, limit=limit, offset=offset)
            options = with_selection(snapshot, plain)
            assert scan_table(snapshot, options).equals(scan_table(snapshot, plain)), options
        part = replace(plain, fragment_ids=(3, 1, 0))
        some = with_selection(snapshot, part)
        assert scan_table(snapshot, some).equals(scan_table(snapshot, part))
        assert count_rows(snapshot, some) == count_rows(snapshot, part)
        assert count_rows(snapshot, options) == count_rows(snapshot, plain)


def rows_of(snapshot: Snapshot, column: str, **spec: Any) -> list[NaiveIndex]:
    given = {
        "fragments": BitMap(range(5)),
        "extra": None,
        "answers": ALL_QUERIES,
        "as_complement": False,
    }
    return naive(snapshot, column, [given | spec])


Install = Callable[[dict[str, list[NaiveIndex]]], None]


@pytest.mark.parametrize(
    ("filter", "is_exact"),
    [
        ("i = 1", True),
        ("i = 1 and s = 'a'", True),
        ("i = 1 or s like 'a%'", True),
        ("not (i = 1 or s = 'a')", True),
        ("i = 1 and length(s) = 2", False),
        ("not (i = 1 or length(s) = 2)", False),
        ("s like 'a_c%'", False),
    ],
)
def test_conditions_that_need_not_be_tested_again(
    snapshot: Snapshot, use: Install, filter: str, is_exact: bool
) -> None:
    use({name: rows_of(snapshot, name) for name in "is"})
    options = ScanOptions(filter=bind(filter, snapshot.schema.arrow))
    selection = with_selection(snapshot, options).selection
    assert selection is not None
    assert selection.is_exact is is_exact


@pytest.mark.parametrize("filter", ["i = 1 or length(s) = 2", "i % 2 = 0", "i = null", "true"])
def test_filters_without_a_use_for_indices(snapshot: Snapshot, use: Install, filter: str) -> None:
    use({name: rows_of(snapshot, name) for name in "is"})
    options = ScanOptions(filter=bind(filter, snapshot.schema.arrow))
    assert with_selection(snapshot, options) is options


def test_what_is_known_at_most_is_not_negated(snapshot: Snapshot, use: Install) -> None:
    use({"i": rows_of(snapshot, "i", extra={0})})
    schema = snapshot.schema.arrow
    assert with_selection(snapshot, ScanOptions(filter=bind("i = 1", schema))).selection
    options = ScanOptions(filter=bind("i <> 1", schema))
    assert with_selection(snapshot, options) is options


@pytest.mark.parametrize(
    "filter", ["s not like 'a%c'", "not (i in (1, null) and s = 'ab')", "not (s like '%a_c')"]
)
def test_queries_that_find_further_rows_are_not_negated(
    snapshot: Snapshot, use: Install, filter: str
) -> None:
    use({name: rows_of(snapshot, name) for name in "is"})
    options = ScanOptions(("_rowaddr",), filter=bind(filter, snapshot.schema.arrow))
    found = with_selection(snapshot, options)
    assert found is options
    assert scan_table(snapshot, found).num_rows


def test_rows_outside_of_the_covered_fragments_can_be_left_out(
    snapshot: Snapshot, use: Install
) -> None:
    use({"i": rows_of(snapshot, "i", fragments=BitMap([1, 3]))})
    options = ScanOptions(("_rowaddr",), filter=bind("i = 1", snapshot.schema.arrow))
    found = scan_table(snapshot, with_selection(snapshot, options, IndexUse(only_covered=True)))
    expected = scan_table(snapshot, replace(options, fragment_ids=(1, 3)))
    assert found.equals(expected)
    assert found.num_rows


def test_indices_can_be_excluded(snapshot: Snapshot, use: Install) -> None:
    use({"i": rows_of(snapshot, "i")})
    options = ScanOptions(filter=bind("i = 1", snapshot.schema.arrow))
    assert with_selection(snapshot, options, IndexUse(is_allowed=False)) is options
    assert with_selection(snapshot, options, IndexUse(segments=frozenset({"x"}))) is options
    only = IndexUse(segments=frozenset({"a-uuid"}))
    assert with_selection(snapshot, options, only).selection


def test_a_damaged_index_is_replaced_by_another_one(snapshot: Snapshot, use: Install) -> None:
    [broken], [sound] = rows_of(snapshot, "i", name="broken"), rows_of(snapshot, "i", name="sound")
    broken.damage = True
    options = ScanOptions(("i", "_rowaddr"), filter=bind("i = 1", snapshot.schema.arrow))
    use({"i": [broken, sound]})
    with pytest.warns(RuntimeWarning, match="'broken'.*a broken page"):
        found = with_selection(snapshot, options)
    assert scan_table(snapshot, found).equals(scan_table(snapshot, options))
    assert found.selection
    use({"i": [broken]})
    with pytest.warns(RuntimeWarning, match="'broken'.*a broken page"):
        assert with_selection(snapshot, options) is options


def test_the_cheapest_index_is_used(
    snapshot: Snapshot, use: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    [coarse] = rows_of(snapshot, "i", name="coarse", extra={0, 3})
    [fine] = rows_of(snapshot, "i", name="fine")
    monkeypatch.setattr(fine, "estimate", lambda _: 3)
    use({"i": [coarse, fine]})
    options = ScanOptions(filter=bind("i = 1", snapshot.schema.arrow))
    selection = with_selection(snapshot, options).selection
    assert selection is not None
    assert selection.is_exact


def test_no_index_is_used_if_most_rows_match(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = rows_of(snapshot, "i")
    monkeypatch.setattr(selecting, "open_segments", lambda _, path: index)
    options = ScanOptions(filter=bind("i <> 5", snapshot.schema.arrow))
    monkeypatch.setattr(index[0], "estimate", lambda _: 1)
    assert with_selection(snapshot, options) is options
    counting = IndexUse(only_counts=True)
    assert with_selection(snapshot, options, counting).selection
    limited = replace(options, limit=1)
    assert with_selection(snapshot, limited) is limited
