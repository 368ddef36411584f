"""The structural check: whole tables have no faults, and each kind of damage is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pilum
from pilum.errors import CorruptFileError
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest_file import encode_manifest_file
from pilum.table.model.names import NamingScheme

NEWEST = f"_versions/{2**64 - 1 - 4:020}.manifest"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four versions: rows, more rows, a delete, a new column; with a tag."""
    where = tmp_path / "table"
    options = {"sync": "false"}
    for first in (0, 1000):
        table = pa.table({"a": range(first, first + 1000), "s": ["text"] * 1000})
        dataset = pilum.write_dataset(table, str(where), mode="append", storage_options=options)
    dataset.delete("a < 10")
    dataset.add_columns({"b": "a * 2"})
    dataset.tags.create("first", 1)
    return where


def data_file(root: Path, fragment: int = 1, number: int = 0) -> str:
    found = pilum.dataset(str(root)).get_fragments()[fragment].metadata.files[number]
    return f"data/{found.path}"


def deletion_file(root: Path) -> str:
    return str(next((root / "_deletions").iterdir()).relative_to(root))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def flip_a_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8:60] = bytes(byte ^ 0x5A for byte in data[8:60])
    path.write_bytes(data)


def test_a_whole_table_has_no_faults(root: Path) -> None:
    dataset = pilum.dataset(str(root))
    report = dataset.verify(deep=True)
    assert report.is_valid
    assert not report.orphaned
    assert (report.num_versions, report.num_files) == (4, 4 + 4 + 4 + 1)
    assert report.size_bytes > 1000
    assert "4 versions, 13 files" in str(report)
    dataset.validate()


@pytest.mark.parametrize(
    ("name", "harm", "kind"),
    [
        (data_file, Path.unlink, "missing"),
        (data_file, cut, "damaged"),
        (deletion_file, Path.unlink, "missing"),
        (deletion_file, cut, "damaged"),
        (lambda root: f"_versions/{2**64 - 3:020}.manifest", cut, "damaged"),
    ],
)
def test_damage_is_named(
    root: Path, name: Callable[[Path], str], harm: Callable[[Path], Any], kind: str
) -> None:
    dataset = pilum.dataset(str(root))
    path = name(root)
    harm(root / path)
    report = dataset.verify()
    assert not report.is_valid
    (fault,) = getattr(report, kind)
    assert fault.path == path
    assert fault.size_bytes == ((root / path).stat().st_size if kind == "damaged" else 0)
    assert path in str(report)
    if path.startswith("_versions"):
        dataset.validate()  # another version is
    else:
        with pytest.raises(CorruptFileError, match=kind):
            dataset.validate()


def flip(path: Path, *places: int) -> None:
    data = bytearray(path.read_bytes())
    for place in places:
        data[place] ^= 0xFF
    path.write_bytes(data)


def write(text: str) -> Callable[[Path], Any]:
    return lambda path: path.write_text(text)


def rewritten(old: str, new: str) -> Callable[[Path], Any]:
    def harm(path: Path) -> None:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return harm


@pytest.fixture
def branched(root: Path) -> Path:
    """The same table with a branch that has a version of its own."""
    dataset = pilum.dataset(str(root), storage_options={"sync": "false"})
    dataset.create_branch("dev").delete("a = 20")
    return root


@pytest.mark.parametrize(
    ("pattern", "harm", "kind", "what"),
    [
        ("_transactions/*.txn", write("\xff" * 30), "damaged", "not a Transaction"),
        ("_versions/*.manifest", write(""), "damaged", "0 bytes"),
        ("data/*.lance", lambda path: flip(path, -40, -39), "damaged", ""),
        ("data/*.lance", lambda path: flip(path, *range(-260, -180)), "damaged", ""),
        ("data/*.lance", lambda path: path.write_bytes(path.read_bytes() + b"x"), "damaged", ""),
        ("_deletions/*", write("ARROW1" * 9), "damaged", "Arrow"),
        ("_refs/tags/*.json", write("{"), "damaged", "not JSON"),
        ("_refs/tags/*.json", rewritten('"version": 1', '"version": 9'), "missing", "version 9"),
        ("_refs/branches/*.json", write("{"), "damaged", "not JSON"),
        (
            "_refs/branches/*.json",
            rewritten('"parentVersion": 4', '"parentVersion": 9'),
            "missing",
            "branch 'dev' names version 9",
        ),
        ("tree/dev/_versions/*.manifest", cut, "damaged", ""),
        ("tree/dev/_deletions/*", Path.unlink, "missing", ""),
    ],
)
def test_every_kind_of_file_is_looked_at(
    branched: Path, pattern: str, harm: Callable[[Path], Any], kind: str, what: str
) -> None:
    dataset = pilum.dataset(str(branched))
    assert dataset.verify().is_valid
    path = max(branched.glob(pattern))
    harm(path)
    report = dataset.verify()
    found = [fault for fault in getattr(report, kind) if branched / fault.path == path]
    assert found, str(report)
    assert what in found[0].what


def test_a_branch_without_its_folder(branched: Path) -> None:
    shutil.rmtree(branched / "tree")
    report = pilum.dataset(str(branched)).verify()
    assert [fault.path for fault in report.missing] == ["_refs/branches/dev.json"]


def test_damaged_pages_are_found_by_decoding(root: Path) -> None:
    path = data_file(root)
    flip_a_page(root / path)
    dataset = pilum.dataset(str(root))
    assert dataset.verify().is_valid
    report = dataset.verify(deep=True)
    if report.is_valid:  # the bytes are values, which are as good as any other
        assert dataset.to_table() != pilum.dataset(str(root), version=3).to_table()
    else:
        assert [fault.path for fault in report.damaged] == [path]


def test_a_file_with_other_rows_is_damage(root: Path) -> None:
    one, other = data_file(root, 0), data_file(root, 1)
    small = pilum.write_dataset(pa.table({"a": [1], "s": ["x"]}), str(root.parent / "other"))
    donor = root.parent / "other" / "data" / small.get_fragments()[0].metadata.files[0].path
    (root / one).write_bytes(donor.read_bytes())
    (fault,) = pilum.dataset(str(root)).verify().damaged
    assert fault.path == one != other
    assert "bytes instead of" in fault.what


def test_orphans_are_no_fault(root: Path) -> None:
    (root / "data" / "lost.lance").write_bytes(b"12345")
    (root / "_transactions" / "9-lost.txn").write_bytes(b"123")
    (root / "data" / "mine.txt").write_bytes(b"1")
    report = pilum.dataset(str(root)).verify()
    assert report.is_valid
    found = {fault.path: fault.size_bytes for fault in report.orphaned}
    assert found == {"data/lost.lance": 5, "_transactions/9-lost.txn": 3}


def test_tags_of_versions_that_are_gone(root: Path) -> None:
    (root / f"_versions/{2**64 - 2}.manifest").unlink()
    report = pilum.dataset(str(root)).verify()
    assert [fault.path for fault in report.missing] == ["_refs/tags/first.json"]


def test_files_in_base_paths_are_looked_at(root: Path) -> None:
    clone = root.parent / "clone"
    dataset = pilum.dataset(str(root)).shallow_clone(str(clone), 4)
    dataset.delete("a = 500")
    report = dataset.verify(deep=True)
    assert report.is_valid
    assert not report.orphaned
    path = data_file(root)
    cut(root / path)
    assert [fault.kind for fault in dataset.verify().damaged] == ["damaged"]
    (root / path).unlink()
    (fault,) = dataset.verify().missing
    assert fault.path == f"{path.removeprefix('data/')} of base path 0"


def test_blobs_are_read_by_a_deep_check(tmp_path: Path) -> None:
    values = [b"in the file", b"x" * 100_000, b"y" * 5_000_000, None]
    uri = str(tmp_path / "blobs")
    dataset = pilum.write_dataset(pa.table({"b": pilum.blob_array(values)}), uri)
    assert dataset.verify(deep=True).is_valid
    sidecars = sorted((tmp_path / "blobs" / "data").glob("*/*.blob"))
    assert len(sidecars) == 2
    sidecars[0].unlink()
    assert dataset.verify().is_valid
    report = dataset.verify(deep=True)
    assert not report.is_valid
    assert "blobs is missing" in str(report)


@settings(max_examples=60)
@given(file=st.integers(0, 8), place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
def test_any_flipped_bits_are_survived(root: Path, file: int, place: float, bits: int) -> None:
    """A check tells what it sees, whatever it sees; it never fails itself."""
    dataset = pilum.dataset(str(root))
    paths = [path for path in sorted(root.rglob("*")) if path.is_file() and path.suffix != ".json"]
    path = paths[file % len(paths)]
    good = path.read_bytes()
    data = bytearray(good)
    data[int(place * len(data))] ^= bits
    path.write_bytes(data)
    try:
        report = dataset.verify(deep=True)
        assert str(report)
    finally:
        path.write_bytes(good)
    assert dataset.verify().is_valid


def test_row_ids_are_one_per_row_and_none_twice(tmp_path: Path) -> None:
    where = tmp_path / "stable"
    table = pa.table({"a": range(6)})
    dataset = pilum.write_dataset(table, where, enable_stable_row_ids=True, max_rows_per_file=3)
    dataset.update({"a": "a + 10"}, where="a = 1")
    assert dataset.verify().is_valid
    manifest = dataset.snapshot.manifest
    first, *others = manifest.fragments
    for row_ids in (others[0].row_ids, b""):
        changed = Fragments([replace(first, row_ids=row_ids), *others])
        data = encode_manifest_file(replace(manifest, fragments=changed), b"")
        dataset.snapshot.store.put(NamingScheme.V2.manifest_path(manifest.version), data)
        report = pilum.dataset(where).verify()
        assert len(report.damaged) == 1
