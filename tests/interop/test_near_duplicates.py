"""Indices of near duplicates: both libraries write the same and return the same rows."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import pilum
from pilum.dataset import ScannerBuilder
from pilum.kernels import reference_min_hash
from pilum.query import MinHashQuery

lance: Any = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = [
    pytest.mark.reference,
    pytest.mark.filterwarnings("ignore:.*deprecated"),
]

_WORDS = [f"w{number}" for number in range(12)]
_SMALL = {"num_hashes": 16, "num_bands": 8, "shingle_size": 2}
_MIXED = [
    "The quick brown fox jumps over the lazy dog", "the quick BROWN fox jumped over a lazy dog",
    "Ünïcode Straße ÄÖ naïve ﬁnal", "unicode strasse ao naive final", "日本語のテキスト 東京都",
    "x", "", "  \n ", None, "a-b_c parseHTTPRequest2 foo42bar", "word " * 50, "y" * 60,
    "İ ſ",
]  # fmt: skip
_TOKENIZERS = [
    {},
    {"base_tokenizer": "whitespace", "lower_case": False, "ascii_folding": False},
    {"base_tokenizer": "raw", "max_token_length": None},
    {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 4},
    {"base_tokenizer": "ngram", "prefix_only": True},
    {"base_tokenizer": "icu"},
    {"base_tokenizer": "icu/split", "stem": True, "remove_stop_words": True},
    {"analyzer": "code", "split_identifiers": True},
    {"base_tokenizer": "simple", "language": "German", "stem": True, "with_position": True},
]


def _index(library: Any, dataset: Any, parameters: dict[str, Any], column: str = "text") -> None:
    config = (lance if library is lance else pilum).indices.IndexConfig("minhashlsh", parameters)
    dataset.create_scalar_index(column, config, name="copies")


def _asked(library: Any, uri: str, text: str, **scan: Any) -> list[tuple[int, float]]:
    query = (lance.query.MinHashQuery if library is lance else MinHashQuery)(text, "text")
    found = library.dataset(uri).to_table(columns=["key", "_distance"], nearest=query, **scan)
    return list(zip(found["key"].to_pylist(), found["_distance"].to_pylist(), strict=True))


def _files(uri: str) -> dict[str, Any]:
    """The content of the files of an index, as the reference reads it."""
    [index] = lance.dataset(uri).list_indices()
    found: dict[str, Any] = {}
    for name in ("signatures", "bands"):
        path = f"{uri}/_indices/{index['uuid']}/{name}.lance"
        reader = lance.file.LanceFileReader(path)
        schema = reader.metadata().schema
        found[name] = reader.read_all().to_table().to_pylist(), schema.metadata, schema.types
        number = int(dict(schema.metadata).get(b"minhash_lsh_page_table_buffer", b"0"))
        found[f"{name}: buffer"] = reader.read_global_buffer(number) if number else None
    return found


@pytest.mark.parametrize("tokenizer", _TOKENIZERS, ids=repr)
def test_files(tmp_path: Path, tokenizer: dict[str, Any]) -> None:
    """For all tokenizers, the files and their description are those of the reference."""
    texts = _MIXED * 3
    table = pa.table({"key": range(len(texts)), "text": pa.array(texts, pa.string())})
    parameters = {"num_hashes": 24, "num_bands": 12, "tokenizer": tokenizer}
    made = {}
    for library in (lance, pilum):
        uri = str(tmp_path / library.__name__)
        dataset = library.write_dataset(table, uri, max_rows_per_file=20)
        _index(library, dataset, parameters)
        [described] = library.dataset(uri).describe_indices()
        [statistics] = library.dataset(uri).stats.index_stats("copies")["indices"]
        made[library.__name__] = _files(uri), described.details, statistics
    assert made["pilum"] == made["lance"]
    for text in filter(None, _MIXED):
        answers = [
            _asked(library, str(tmp_path / owner), text, limit=50)
            for library in (lance, pilum)
            for owner in ("lance", "pilum")
        ]
        assert answers == [answers[0]] * 4


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_many_pages(tmp_path: Path, version: str) -> None:
    """Keys of several pages, some of them of one key alone; all file versions."""
    chosen = random.Random(7)
    texts = [" ".join(chosen.choices(_WORDS, k=30)) for _ in range(300)] + ["all alike " * 9] * 700
    chosen.shuffle(texts)
    table = pa.table({"key": range(len(texts)), "text": texts})
    for library in (lance, pilum):
        uri = str(tmp_path / library.__name__)
        dataset = library.write_dataset(table, uri, data_storage_version=version)
        _index(library, dataset, {})
    ours, theirs = (_files(str(tmp_path / name)) for name in ("pilum", "lance"))
    assert ours == theirs
    assert len(ours["bands: buffer"]) == 4 * 8
    for text in [*texts[:20], "all alike " * 9, "something else"]:
        for limit in (3, 1000):
            answers = [
                _asked(library, str(tmp_path / owner), text, limit=limit)
                for library in (lance, pilum)
                for owner in ("lance", "pilum")
            ]
            assert answers == [answers[0]] * 4


def _copies(chosen: random.Random, count: int) -> list[str | None]:
    """Texts that share most of their words with others, and some that have none."""
    found: list[str | None] = []
    base = [chosen.choices(_WORDS, k=10) for _ in range(4)]
    for _ in range(count):
        words = list(chosen.choice(base))
        for _ in range(chosen.randrange(4)):
            words[chosen.randrange(10)] = chosen.choice(_WORDS)
        found.append(chosen.choice([" ".join(words)] * 8 + [None, ""]))
    return found


def _brute_force(uri: str, text: str, limit: int, filter: str | None = None) -> Any:
    """The answer by naive signatures of all rows."""
    of = _naive(text)
    rows = lance.dataset(uri).to_table(filter=filter, with_row_id=True).to_pylist()
    found = []
    for row in rows:
        own = _naive(row["text"])
        if own is not None and of is not None and set(own[1]) & set(of[1]):
            shared = sum(a == b for a, b in zip(own[0], of[0], strict=True))
            found.append((1 - shared / _SMALL["num_hashes"], row["_rowid"], row["key"]))
    return [(key, distance) for distance, _, key in sorted(found)[:limit]]


def _naive(text: str | None) -> tuple[list[int], list[int]] | None:
    words = (text or "").split()
    values = reference_min_hash.signature(words, _SMALL["num_hashes"], _SMALL["shingle_size"])
    if values is None:
        return None
    return values, reference_min_hash.band_keys(values, _SMALL["num_bands"])


def _changes(chosen: random.Random, keys: Iterator[int]) -> dict[str, Any]:
    """Changes of a table by either library, by name."""

    def rows(count: int) -> pa.Table:
        own = [next(keys) for _ in range(count)]
        return pa.table({"key": own, "text": pa.array(_copies(chosen, count), pa.string())})

    def merge(_: Any, dataset: Any) -> None:
        some = dataset.to_table(columns=["key"])["key"].to_pylist()
        old = chosen.sample(some, min(6, len(some)))
        new = rows(len(old) + 3)
        new = new.set_column(0, "key", [old + new["key"].to_pylist()[len(old) :]])
        merged = dataset.merge_insert("key").when_matched_update_all()
        merged.when_not_matched_insert_all().execute(new)

    def update(_: Any, dataset: Any) -> None:
        [text] = [one for one in _copies(chosen, 30) if one][:1]
        dataset.update({"text": f"'{text}'"}, where=f"key % 11 = {chosen.randrange(11)}")

    return {
        "append": lambda library, dataset: library.write_dataset(
            rows(12), dataset.uri, mode="append"
        ),
        "delete": lambda _, dataset: dataset.delete(f"key % 9 = {chosen.randrange(9)}"),
        "update": update,
        "merge": merge,
        "compact": lambda _, dataset: dataset.optimize.compact_files(),
        "defer": lambda _, dataset: dataset.optimize.compact_files(defer_index_remap=True),
        "optimize": lambda _, dataset: dataset.optimize.optimize_indices(
            num_indices_to_merge=chosen.choice([0, 1, 5])
        ),
    }


@pytest.mark.seeds(4)
@pytest.mark.parametrize("has_ids", [False, True])
def test_changes(tmp_path: Path, seed: int, has_ids: bool) -> None:
    """After any changes by either library, the answers are those of brute force."""
    chosen, keys = random.Random(seed), iter(range(10**6))
    changes = _changes(chosen, keys)
    first = [next(keys) for _ in range(40)]
    table = pa.table({"key": first, "text": pa.array(_copies(chosen, 40), pa.string())})
    uri = str(tmp_path / "t")
    library = chosen.choice([lance, pilum])
    dataset = library.write_dataset(table, uri, max_rows_per_file=25, enable_stable_row_ids=has_ids)
    _index(library, dataset, _SMALL)
    done = []
    for _ in range(8):
        library, name = chosen.choice([lance, pilum]), chosen.choice(list(changes))
        if has_ids:  # the reference returns old values, or none, of updated rows with stable ids
            library = pilum
            if name == "defer":
                continue
        done.append(f"{library.__name__}: {name}")
        changes[name](library, library.dataset(uri))
        text = next(one for one in _copies(chosen, 50) if one)
        for filter in (None, "key % 2 = 0"):
            scan: dict[str, Any] = {} if filter is None else {"filter": filter, "prefilter": True}
            expected = _brute_force(uri, text, 7, filter)
            assert _asked(pilum, uri, text, limit=7, **scan) == expected, done
            if not has_ids:
                assert _asked(lance, uri, text, limit=7, **scan) == expected, done
    shutil.rmtree(uri)


def test_segments(tmp_path: Path) -> None:
    """Segments are built apart, merged and committed by either library, if they are of one kind."""
    table = pa.table({"key": range(60), "text": _copies(random.Random(5), 60)})
    for library in (lance, pilum):
        uri = str(tmp_path / library.__name__)
        dataset = library.write_dataset(table, uri, max_rows_per_file=20)
        built = []
        for parameters, fragments in [(_SMALL, [0]), (_SMALL, [1]), ({"num_hashes": 32}, [2])]:
            config = library.indices.IndexConfig("minhashlsh", parameters)
            built.append(
                dataset.create_index_uncommitted("text", config, "i", fragment_ids=fragments)
            )
        message = r"must (have|share) .* parameters"
        with pytest.raises(ValueError, match=message):
            dataset.commit_existing_index_segments("i", "text", built)
        with pytest.raises(ValueError, match=message):
            dataset.merge_existing_index_segments(built)
        merged = dataset.merge_existing_index_segments(built[:2])
        library.dataset(uri).commit_existing_index_segments("i", "text", [merged])
    text = table["text"][0].as_py() or table["text"][1].as_py()
    for scan in ({"limit": 60}, {"limit": 60, "fast_search": True}, {"limit": 5, "offset": 2}):
        answers = [
            _asked(library, str(tmp_path / owner), text, **scan)
            for library in (lance, pilum)
            for owner in ("lance", "pilum")
        ]
        assert answers == [answers[0]] * 4


def test_arguments(tmp_path: Path) -> None:
    """Filters, limits and fragments mean the same in both libraries; errors say what is wrong."""
    table = pa.table({"key": range(60), "text": ["a b c d e f g h"] * 60})
    uri = str(tmp_path / "t")
    dataset: Any = pilum.write_dataset(table, uri, max_rows_per_file=20)
    dataset.create_scalar_index("text", "MINHASHLSH", num_hashes=8, num_bands=4)
    text = "A b c d e f g h!"
    for scan in (
        {},
        {"offset": 3},
        {"limit": 0},
        {"filter": "key > 5", "limit": 9},
        {"filter": "key > 5 AND _distance < 0.5", "limit": 9, "offset": 2},
        {"filter": "key > 5", "limit": 9, "prefilter": True},
    ):
        assert _asked(pilum, uri, text, **scan) == _asked(lance, uri, text, **scan), scan
    found = dataset.scanner(
        columns=["key"],
        nearest=MinHashQuery(text, "text"),
        fragments=dataset.get_fragments()[1:2],
        limit=3,
        disable_scoring_autoprojection=True,
    ).to_table()
    assert found.to_pydict() == {"key": [20, 21, 22]}
    assert pilum.dataset(uri).scanner(nearest=MinHashQuery(" ", "text")).count_rows() == 0
    wanted = dataset.scanner(nearest=MinHashQuery(text, "text"), limit=4)
    assert "MinHashSearch: column=text, limit=4, segments=1" in wanted.explain_plan()
    built = ScannerBuilder(dataset).minhash_search(MinHashQuery(text, "text")).limit(4)
    assert built.to_scanner().to_table().equals(wanted.to_table())
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (MinHashQuery(text, "key"), {}, "'key' has no index of the type MINHASHLSH"),
        (MinHashQuery(cast("Any", 5), "text"), {}, "text: expected text, found 5"),
        (MinHashQuery(text, "text"), {"index_segments": ["x"]}, "index_segments"),
        (MinHashQuery(text, "text"), {"full_text_query": "a"}, "both nearest and full text"),
        (text, {}, "nearest: expected a dict"),
    ]
    for query, more, message in refused:
        with pytest.raises(ValueError, match=message):
            dataset.to_table(nearest=query, **more)


def test_damaged_segments_are_left_out(tmp_path: Path) -> None:
    """Rows of a segment that cannot be read are searched without it, with a warning."""
    table = pa.table({"key": range(40), "text": ["a b c d e"] * 40})
    uri = str(tmp_path / "t")
    dataset: Any = pilum.write_dataset(table, uri)
    _index(pilum, dataset, {})
    pilum.write_dataset(table, uri, mode="append")
    pilum.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    [first, _] = pilum.dataset(uri).describe_indices()[0].segments
    path = tmp_path / "t" / "_indices" / first.uuid / "bands.lance"
    path.write_bytes(path.read_bytes()[:100])
    fresh = pilum.dataset(uri, session=pilum.Session())
    with pytest.warns(RuntimeWarning, match=f"segment {first.uuid}, is not used"):
        found = fresh.to_table(nearest=MinHashQuery("a b c d e", "text"), limit=100)
    assert found.num_rows == 80
