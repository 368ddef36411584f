"""`pilum.blob`: values that become blobs, and blobs as files."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pilum
from pilum.blob import BlobFile, BlobType
from pilum.errors import InvalidInputError
from pilum.storage.base import Source
from pilum.table.read.blobs import BlobPlace

DATA = bytes(range(256)) * 40


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def dataset(request: pytest.FixtureRequest, tmp_path_factory: Any) -> pilum.LanceDataset:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table(
        [pa.array([b"before", DATA, b"", None, b"behind"], pa.large_binary())],
        schema=pa.schema([field]),
    )
    folder: Path = tmp_path_factory.mktemp("blobs")
    return pilum.write_dataset(table, folder / "t", data_storage_version=request.param)


def opened(dataset: pilum.LanceDataset, buffer_size: int) -> BlobFile:
    (file,) = dataset.take_blobs("b", indices=[1], buffer_size=buffer_size)
    assert file is not None
    return file


STEPS = st.one_of(
    st.tuples(st.just("read"), st.integers(-1, 12_000)),
    st.tuples(st.just("read1"), st.integers(0, 12_000)),
    st.tuples(st.just("seek"), st.integers(0, 11_000)),
    st.tuples(st.just("readinto"), st.integers(0, 5_000)),
)


@settings(max_examples=60)
@given(steps=st.lists(STEPS, max_size=12), buffer_size=st.sampled_from([0, 1, 100, 512 * 1024]))
def test_a_blob_is_read_like_a_file_in_memory(
    dataset: pilum.LanceDataset, steps: list[tuple[str, int]], buffer_size: int
) -> None:
    expected = io.BytesIO(DATA)
    with opened(dataset, buffer_size) as file:
        for name, number in steps:
            if name == "readinto":
                found = bytearray(number)
                count = file.readinto(found)
                assert bytes(found[:count]) == expected.read(count)
            elif name == "read1":
                found_bytes = file.read1(number)
                assert len(found_bytes) <= number
                assert found_bytes == expected.read(len(found_bytes))
            else:
                assert getattr(file, name)(number) == getattr(expected, name)(number)
            assert file.tell() == expected.tell()


@pytest.mark.parametrize("buffer_size", [0, 1000])
def test_positions_from_the_end_and_from_here(
    dataset: pilum.LanceDataset, buffer_size: int
) -> None:
    file = opened(dataset, buffer_size)
    assert file.seek(-3, io.SEEK_END) == len(DATA) - 3
    assert file.read() == DATA[-3:]
    assert file.seek(-2, io.SEEK_CUR) == len(DATA) - 2
    assert file.readall() == DATA[-2:]
    assert file.read() == b""
    with pytest.raises(ValueError, match=r"seek|negative"):
        file.seek(-1)
    with pytest.raises(ValueError, match="whence"):
        file.seek(0, 7)


def test_ranges_leave_the_position_alone(dataset: pilum.LanceDataset) -> None:
    file = opened(dataset, 100)
    file.seek(10)
    assert file.read_range(5, 4) == DATA[5:9]
    assert file.read_ranges([(0, 2), (300, 1), (7, 0)]) == [DATA[:2], DATA[300:301], b""]
    assert file.tell() == 10
    for wrong in [(len(DATA), 1), (-1, 1), (0, -1), (2**63, 2**63)]:
        with pytest.raises(InvalidInputError):
            file.read_range(*wrong)


def test_null_empty_closed_and_sent(dataset: pilum.LanceDataset) -> None:
    empty, null, full = dataset.take_blobs("b", indices=[2, 3, 1])
    assert null is None
    assert empty is not None
    assert full is not None
    assert (empty.size(), empty.read(), repr(empty)) == (0, b"", "<BlobFile size=0>")
    assert (full.readable(), full.seekable(), full.writable()) == (True, True, False)
    copy = pickle.loads(pickle.dumps(full))
    full.close()
    assert full.closed
    assert full.size() == len(DATA)
    with pytest.raises(ValueError, match="closed"):
        full.read()
    with pytest.raises(ValueError, match="closed"):
        full.read_range(0, 1)
    assert copy.read() == DATA


def test_parts_of_blobs(dataset: pilum.LanceDataset) -> None:
    requests = [(1, 3, 5), (3, 0, 9), (0, 0, 6), (2, 0, 0)]
    found = dataset.read_blob_ranges("b", requests, selector="indices")
    assert found == [(0, 1, DATA[3:8]), (1, 3, None), (2, 0, b"before"), (3, 2, b"")]
    for wrong in [(1, len(DATA), 1), (1, -1, 1)]:
        with pytest.raises(InvalidInputError):
            dataset.read_blob_ranges("b", [wrong], selector="ids")
    with pytest.raises(InvalidInputError, match="selector"):
        dataset.read_blob_ranges("b", requests, selector="rows")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"data": b"x", "uri": "y"},
        {"uri": ""},
        {"uri": "x", "position": 1},
        {"uri": "x", "position": 1, "size": 0},
        {"uri": "x", "position": -1, "size": 1},
        {"data": b"x", "position": 1, "size": 1},
    ],
)
def test_blobs_that_make_no_sense(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        pilum.Blob(**arguments)


def test_arrays_of_blobs() -> None:
    uri = "file:///x"
    given = [b"a", bytearray(b"b"), memoryview(b"c"), uri, None, pilum.Blob.from_uri(uri, 1, 2)]
    array = pilum.blob_array([*given, pilum.Blob.empty()])
    assert isinstance(array, pilum.BlobArray)
    assert array.storage.field("data").to_pylist() == [b"a", b"b", b"c", None, None, None, b""]
    assert array.storage.field("uri").to_pylist() == [None, None, None, uri, None, uri, None]
    assert array.storage.field("size").to_pylist() == [None] * 5 + [2, None]
    assert array.null_count == 1
    assert pickle.loads(pickle.dumps(BlobType())) == BlobType()
    with pytest.raises(TypeError, match="int"):
        pilum.blob_array([1])


def test_a_binary_column_as_files() -> None:
    files = list(pilum.BlobColumn(pa.array([b"ab", None])))
    assert [file and file.read() for file in files] == [b"ab", None]
    with pytest.raises(InvalidInputError, match="int64"):
        pilum.BlobColumn(pa.array([1]))


def test_a_thread_that_moves_the_position_makes_no_read_leave_the_blob(
    dataset: pilum.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows the blob in its file are the bytes of another one."""
    file = opened(dataset, 0)
    open_source = BlobPlace.source

    def while_another_seeks(place: BlobPlace) -> Source:
        file.seek(len(DATA) - 5)
        return open_source(place)

    monkeypatch.setattr(BlobPlace, "source", while_another_seeks)
    assert DATA.find(file.read()) >= 0
