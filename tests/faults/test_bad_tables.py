"""Tables that are missing, damaged or too new: one clear error, and nothing is changed."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from faults.helpers import refused

import pilum
from pilum.distributed import Mode, start_job
from pilum.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    DatasetNotFoundError,
    FilterError,
    InvalidInputError,
    NotFoundError,
    PilumError,
    UnsupportedFeatureError,
    UnsupportedVersionError,
    VersionNotFoundError,
)
from pilum.format.pb import table_pb2

_FOOTER = struct.Struct("<QHH4s")
TABLE = pa.table(
    {
        "a": pa.array([1, None, 3] * 500, pa.int32()),
        "s": ["x", None, "some text"] * 500,
        "l": pa.array([[1, 2], None, []] * 500, pa.list_(pa.int64())),
        "st": pa.array([{"x": 1.5}, None, {"x": None}] * 500),
        "v": pa.array([[0.5] * 80] * 1500, pa.list_(pa.float32(), 80)),
    }
)
READS: list[Callable[[pilum.LanceDataset], Any]] = [
    lambda dataset: dataset.to_table(),
    lambda dataset: list(dataset.to_batches(batch_size=100)),
    lambda dataset: dataset.take([3, 1000, 3]),
    lambda dataset: dataset.to_table(filter="a = 3 AND s LIKE 'some%'"),
]


@pytest.fixture(scope="session")
def good_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "t"
    pilum.write_dataset(TABLE, path)
    return path


@pytest.fixture
def path(tmp_path: Path, good_table: Path) -> Path:
    return Path(shutil.copytree(good_table, tmp_path / "t"))


def data_file(path: Path) -> Path:
    (file,) = (path / "data").iterdir()
    return file


def manifest_file(path: Path) -> Path:
    (file,) = path.glob("_versions/*.manifest")
    return file


def patch_manifest(path: Path, change: Callable[[table_pb2.Manifest], object]) -> None:
    """Writes another manifest in the place of the one that is there."""
    file = manifest_file(path)
    data = file.read_bytes()
    position, *rest = _FOOTER.unpack(data[-_FOOTER.size :])
    message = table_pb2.Manifest.FromString(data[position + 4 : -_FOOTER.size])
    change(message)
    body = message.SerializeToString()
    length = struct.pack("<I", len(body))
    file.write_bytes(data[:position] + length + body + _FOOTER.pack(position, *rest))


def patch_bytes(file: Path, position: int, data: bytes) -> None:
    content = bytearray(file.read_bytes())
    end = position + len(data)
    content[position : end or None] = data
    file.write_bytes(content)


def forget_size(message: table_pb2.Manifest) -> None:
    message.fragments[0].files[0].file_size_bytes = 0


@pytest.mark.parametrize("name", ["missing", "missing/deeper", "empty", "folder", "file", "file/x"])
def test_what_is_no_table(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder" / "_versions").mkdir(parents=True)
    (tmp_path / "folder" / "_versions" / "notes.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    path = tmp_path / name
    with refused(DatasetNotFoundError, str(path), within=tmp_path):
        pilum.dataset(path)


def test_a_version_that_there_is_not(path: Path) -> None:
    with refused(VersionNotFoundError, "7", str(path), within=path):
        pilum.dataset(path, version=7)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("size_is_known", [True, False])
@pytest.mark.parametrize("left", [0.0, 0.001, 0.5, 0.9, 0.99, 0.9999])
def test_a_truncated_data_file(path: Path, left: float, size_is_known: bool, read: Any) -> None:
    if not size_is_known:
        patch_manifest(path, forget_size)
    file = data_file(path)
    file.write_bytes(file.read_bytes()[: int(left * file.stat().st_size)])
    dataset = pilum.dataset(path)
    with refused(CorruptFileError, str(file), within=path):
        read(dataset)


def test_a_data_file_that_is_gone(path: Path) -> None:
    file = data_file(path)
    file.unlink()
    with refused(NotFoundError, str(file), within=path):
        pilum.dataset(path).to_table()


def test_a_truncated_manifest(path: Path) -> None:
    file = manifest_file(path)
    whole = file.read_bytes()
    for size in [*range(0, len(whole), 13), len(whole) - 1]:
        file.write_bytes(whole[:size])
        with refused(CorruptFileError, file.name, within=path):
            pilum.dataset(path)
        with refused(CorruptFileError, file.name, within=path):
            pilum.write_dataset(TABLE, path, mode="append")


@pytest.mark.parametrize("magic", [b"PAR1", b"lanc", b"\0\0\0\0"])
def test_wrong_magic(path: Path, magic: bytes) -> None:
    patch_bytes(data_file(path), -4, magic)
    with refused(CorruptFileError, data_file(path).name, repr(magic), within=path):
        pilum.dataset(path).to_table()
    patch_bytes(manifest_file(path), -4, magic)
    with refused(CorruptFileError, manifest_file(path).name, repr(magic), within=path):
        pilum.dataset(path)


@pytest.mark.parametrize("version", [(0, 4), (2, 9), (3, 0), (65535, 65535)])
def test_a_data_file_of_another_version(path: Path, version: tuple[int, int]) -> None:
    patch_bytes(data_file(path), -8, struct.pack("<HH", *version))
    with refused(UnsupportedVersionError, f"{version[0]}.{version[1]}", within=path):
        pilum.dataset(path).to_table()


def test_a_table_of_another_version(path: Path) -> None:
    def change(message: table_pb2.Manifest) -> None:
        message.data_format.version = "2.9"
        message.fragments[0].files[0].file_minor_version = 9

    patch_manifest(path, change)
    with refused(UnsupportedVersionError, "2.9", within=path):
        pilum.dataset(path).to_table()
    with refused(UnsupportedVersionError, "2.9", within=path):
        pilum.write_dataset(TABLE, path, mode="append")


@pytest.mark.parametrize("bit", [9, 13, 20, 40, 63])
@pytest.mark.checklist("S2.2")
def test_an_unknown_feature_of_readers(path: Path, bit: int) -> None:
    def change(message: table_pb2.Manifest) -> None:
        message.reader_feature_flags |= 1 << bit

    patch_manifest(path, change)
    for act in (pilum.dataset, lambda path: pilum.write_dataset(TABLE, path, mode="append")):
        with refused(UnsupportedFeatureError, str(path), within=path):
            act(path)


@pytest.mark.parametrize("bit", [9, 13, 15, 16, 40, 63])  # 15 says nothing without its member
@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.checklist("S2.2")
def test_an_unknown_feature_of_writers(path: Path, bit: int, mode: str) -> None:
    def change(message: table_pb2.Manifest) -> None:
        message.writer_feature_flags |= 1 << bit

    patch_manifest(path, change)
    assert pilum.dataset(path).to_table().num_rows == TABLE.num_rows
    with refused(UnsupportedFeatureError, str(path), within=path):
        pilum.write_dataset(TABLE, path, mode=mode)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_table_that_cannot_go_on_is_refused_before_data_is_read(path: Path, mode: Mode) -> None:
    def change(message: table_pb2.Manifest) -> None:
        message.fragments.append(message.fragments[0])
        message.fragments[1].files[0].path = "another.lance"

    seen: list[bool] = []

    def batches() -> Iterator[pa.RecordBatch]:
        seen.append(True)
        yield from TABLE.to_batches()

    patch_manifest(path, change)
    with refused(CorruptFileError, "two fragments have one id", within=path):
        reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
        pilum.write_dataset(reader, path, mode=mode)
    assert not seen
    with refused(CorruptFileError, "two fragments have one id", within=path):
        start_job(str(path), TABLE.schema, mode)


@pytest.mark.parametrize("columns", [["nope"], ["a", "A "], ["st.y"], ["a.x"], ["l.item"], [""]])
def test_unknown_columns(path: Path, columns: list[str]) -> None:
    dataset = pilum.dataset(path)
    for read in (dataset.to_table, lambda columns: dataset.take([0], columns)):
        with refused(ColumnNotFoundError, repr(columns[-1].rpartition(".")[2]), within=path):
            read(columns)


@pytest.mark.parametrize(
    "filter",
    ["", "a >", "a = 1 AND", "a = 'x'", "s + 1 = 2", "((a = 1)", "l = 1", "nope = 1", "st.y = 1"],
)
def test_bad_filters(path: Path, filter: str) -> None:
    dataset = pilum.dataset(path)
    error = ColumnNotFoundError if filter in ("nope = 1", "st.y = 1") else FilterError
    for read in (dataset.to_table, dataset.scanner, dataset.count_rows):
        with refused(error, within=path):
            read(filter=filter)


@pytest.mark.parametrize("rows", [[1500], [-1], [0, 2**40]])
def test_rows_that_there_are_not(path: Path, rows: list[int]) -> None:
    with refused(InvalidInputError, str(rows[-1]), "1500", within=path):
        pilum.dataset(path).take(rows)


@pytest.mark.seeds(1)
def test_damaged_bytes_are_never_worse_than_an_error(path: Path, seed: int) -> None:
    """There are no checksums: values may differ, but nothing else may happen."""
    file = data_file(path)
    patch_manifest(path, forget_size)
    whole = np.frombuffer(file.read_bytes(), np.uint8)
    random = np.random.default_rng(seed)
    seen: set[bool] = set()
    for number in range(250):
        damaged = whole.copy()
        reach = len(whole) if number % 2 else 4000  # the end of the file is the touchy part
        places = len(whole) - 1 - random.integers(0, reach, 1 + number % 3)
        damaged[places] ^= random.integers(1, 256, len(places), dtype=np.uint8)
        other = path / "data" / f"{number}.lance"
        other.write_bytes(damaged.tobytes())
        patch_manifest(path, partial(point_to, name=other.name))
        seen.add(reads_or_is_refused(path))
        other.unlink()
    assert seen == {True, False}


def point_to(message: table_pb2.Manifest, *, name: str) -> None:
    message.fragments[0].files[0].path = name


def reads_or_is_refused(path: Path) -> bool:
    try:
        for read in READS[:3]:
            found = read(pilum.dataset(path))
            if isinstance(found, pa.Table):
                found.validate()
    except PilumError:
        return False
    return True
