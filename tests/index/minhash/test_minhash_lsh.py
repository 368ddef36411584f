"""Indices of near duplicates: parameters, merges, and damaged files."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fuzz.mutate import mutate
from index.scalar.folders import Folders, moved
from index.scalar.strategies import rows_of

from pilum.errors import (
    CorruptFileError,
    InvalidInputError,
    PilumError,
    UnknownArgumentError,
    UnsupportedFormatError,
    UnsupportedTypeError,
)
from pilum.format.pb import index_pb2
from pilum.format.version import FileVersion
from pilum.index.base import Part
from pilum.index.files import IndexFolder
from pilum.index.minhash import writing
from pilum.index.minhash.index import MinHashIndex
from pilum.index.minhash.minhash_lsh import MINHASH_LSH
from pilum.index.minhash.parameters import MinHashParameters
from pilum.index.queries import IsNull
from pilum.storage.local import LocalStore

_SMALL: dict[str, Any] = {"num_hashes": 8, "num_bands": 4, "shingle_size": 2}


def _texts(count: int, seed: int = 3) -> pa.Array:
    chosen = random.Random(seed)
    words = [" ".join(chosen.choices("abcd", k=chosen.randrange(6))) for _ in range(count)]
    return pa.array([None if len(one) == 1 else one for one in words], pa.string())


def _found(index: MinHashIndex, text: str) -> list[int]:
    query = index.signer.sign_query(text)
    return [row for rows, _ in index.candidates(query) for row in rows.tolist()]


def test_parameters() -> None:
    """Defaults are those of the reference; each wrong value is named."""
    made = MINHASH_LSH.parameters({"tokenizer": {"language": "German"}}, pa.string())
    assert (made.num_hashes, made.num_bands, made.shingle_size) == (128, 16, 3)
    assert [made.tokenizer.stem, made.tokenizer.remove_stop_words] == [False, False]
    assert MinHashParameters.from_details(made.to_details()) == made
    refused: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"bands": 2}, UnknownArgumentError, "bands"),
        ({"num_hashes": 0}, InvalidInputError, "num_hashes: expected 1 to 4096, found 0"),
        ({"num_hashes": 4097, "num_bands": 1}, InvalidInputError, "num_hashes"),
        ({"num_hashes": 514, "num_bands": 257}, InvalidInputError, "num_bands"),
        ({"num_hashes": 10, "num_bands": 3}, InvalidInputError, "multiple of num_bands, 3"),
        ({"num_hashes": "9"}, InvalidInputError, "num_hashes"),
        ({"shingle_size": 2**32}, InvalidInputError, "shingle_size"),
        ({"tokenizer": "icu"}, InvalidInputError, "tokenizer: expected a dict"),
        ({"tokenizer": {"lance_tokenizer": "text"}}, UnknownArgumentError, "lance_tokenizer"),
        ({"tokenizer": {"custom_stop_words": ["a"]}}, InvalidInputError, "custom_stop_words"),
        ({"tokenizer": {"base_tokenizer": "jieba/default"}}, InvalidInputError, "a dictionary"),
        ({"tokenizer": {"base_tokenizer": "lindera/ipadic"}}, InvalidInputError, "a dictionary"),
    ]
    for given, error, message in refused:
        with pytest.raises(error, match=message):
            MINHASH_LSH.parameters(given, pa.string())
    with pytest.raises(UnsupportedTypeError, match="MINHASHLSH index column n must be a string"):
        MINHASH_LSH.require_supported("n", pa.binary())


def test_details_of_others() -> None:
    """Details that this library cannot use are errors that say why."""
    details = index_pb2.MinHashLshIndexDetails.FromString(MinHashParameters().to_details())
    for name, value, error, message in [
        ("signature_version", 1, UnsupportedFormatError, "create the index again"),
        ("num_hashes", 3, CorruptFileError, "multiple of num_bands"),
        ("num_bands", 0, CorruptFileError, "num_bands"),
        ("tokenizer", None, CorruptFileError, "no tokenizer"),
    ]:
        changed = index_pb2.MinHashLshIndexDetails()
        changed.CopyFrom(details)
        if value is None:
            changed.ClearField("tokenizer")
        else:
            setattr(changed, name, value)
        with pytest.raises(error, match=message):
            MinHashParameters.from_details(changed.SerializeToString())
    with pytest.raises(CorruptFileError, match="details"):
        MinHashParameters.from_details(b"\xff")


def test_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge is a build of the rows that are left; so is one with keys in a temporary file."""
    folders = Folders(str(tmp_path))
    texts, more = _texts(200), _texts(30, seed=4)
    index = folders.built(MINHASH_LSH, texts, **_SMALL)
    monkeypatch.setattr(writing, "_KEPT_BYTES", 0)
    monkeypatch.setattr(writing, "_SORTED_TOGETHER", 7)
    gone = set(range(0, 200, 3))
    folder = folders.new()
    rows = rows_of(more, list(range(1000, 1030)))
    details = MINHASH_LSH.merge([Part(index, moved(gone, 500))], rows, folder)
    merged = MINHASH_LSH.open(folder.written(), details, 0)
    left = [row for row in range(200) if row not in gone]
    both = pa.concat_arrays([texts.take(pa.array(left)), more])
    references = [row + 500 for row in left] + list(range(1000, 1030))
    monkeypatch.undo()
    expected = folders.built(MINHASH_LSH, both, references, **_SMALL)
    assert merged.statistics() == expected.statistics()
    for name in ("signatures", "bands"):
        ours, theirs = (
            IndexFolder(LocalStore(str(tmp_path)), f"_indices/{number}").open(f"{name}.lance")
            for number in (1, 2)
        )
        assert ours.read().equals(theirs.read())
        assert ours.metadata == theirs.metadata
    assert index.search(IsNull()) is None
    assert index.estimate(IsNull()) is None
    other = folders.built(MINHASH_LSH, more, **{**_SMALL, "shingle_size": 3})
    with pytest.raises(InvalidInputError, match="must have the same parameters"):
        MINHASH_LSH.merge([Part(index), Part(other)], None, folders.new())


def test_reads_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates are the same whether rows are read one by one, in small groups, or are kept."""
    monkeypatch.setattr(writing, "_ROWS_OF_PAGE", 16)
    monkeypatch.setattr("pilum.index.minhash.index._PAGES_TOGETHER", 3)
    monkeypatch.setattr("pilum.index.minhash.index._DOCUMENTS_TOGETHER", 5)
    monkeypatch.setattr("pilum.index.scalar.read_costs._MOST_BYTES", 0)
    texts = pa.concat_arrays([_texts(150), pa.array(["a b c"] * 60)])
    index = Folders(str(tmp_path)).built(MINHASH_LSH, texts, **_SMALL)
    asked = ["a b c", "d d a", "c b a d", "z", ""]
    single = [_found(index, text) for text in asked]
    before = index.size_bytes
    index.prewarm()
    assert index.size_bytes > before
    assert [_found(index, text) for text in asked] == single
    assert set(range(150, 210)) <= set(single[0])
    assert single[4] == []
    own = [index.signer.sign_query(text) for text in texts.fill_null("").to_pylist()]
    for text, found in zip(asked, single, strict=True):
        keys = index.signer.sign_query(text).keys
        rows = [row for row, one in enumerate(own) if len(one) and len(keys)]
        assert found == [row for row in rows if (own[row].keys == keys).any()]


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    """Each contradiction between the files and the details is an error."""
    folders = Folders(str(tmp_path))
    folders.built(MINHASH_LSH, _texts(20), **_SMALL)
    folders.built(MINHASH_LSH, _texts(25), **_SMALL)
    details = MinHashParameters.from_keywords(_SMALL).to_details()

    def opened(details: bytes) -> Any:
        folder = IndexFolder(LocalStore(str(tmp_path)), "_indices/0")
        return MINHASH_LSH.open(folder, details, 0)

    assert opened(details).num_documents > 0
    with pytest.raises(CorruptFileError, match="parameters are not those of the table"):
        opened(MinHashParameters().to_details())
    path = tmp_path / "_indices/0/bands.lance"
    path.write_bytes((tmp_path / "_indices/1/bands.lance").read_bytes())
    with pytest.raises(CorruptFileError, match="another number of documents"):
        opened(details)


@pytest.mark.seeds(40)
@pytest.mark.parametrize("version", [FileVersion.V2_0, FileVersion.V2_1])
def test_damage(tmp_path: Path, version: FileVersion, seed: int) -> None:
    """Mutated bytes of any file: an error of this library, or rows of the index."""
    source = random.Random(f"{seed} {version}")
    folders = Folders(str(tmp_path), version)
    index = folders.built(MINHASH_LSH, _texts(100), **_SMALL)
    details = index.parameters.to_details()
    path = source.choice(sorted(tmp_path.rglob("*.lance")))
    path.write_bytes(mutate(path.read_bytes(), source))
    with suppress(PilumError):
        folder = IndexFolder(LocalStore(str(tmp_path)), "_indices/0")
        opened = MINHASH_LSH.open(folder, details, 0)
        assert opened.statistics()
        for _ in range(2):
            for text in ("a b c", "d d a b"):
                for rows, values in opened.candidates(opened.signer.sign_query(text)):
                    assert rows.dtype == np.uint64
                    assert values.shape == (len(rows), 8)
            opened.prewarm()
        MINHASH_LSH.merge([Part(opened)], None, folders.new())
