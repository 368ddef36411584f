"""Object stores, against a server of the S3 protocol, and memory."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import numpy as np
import pytest
from servers.moto import aws_options, client
from servers.processes import Server

from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError
from pilum.storage.base import Entry, IOStats, Ranges, Store
from pilum.storage.cloud_sink import PART_BYTES
from pilum.storage.open import object_uri, open_object, open_store

pytest.importorskip("obstore", reason="needs obstore: pip install 'pilum[cloud]'")


@pytest.fixture
def bucket(aws: Server) -> str:
    name = f"bucket-{uuid4().hex}"
    client(aws.url).create_bucket(Bucket=name)
    return name


@pytest.fixture(params=["s3", "memory"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return open_store(f"memory://{uuid4().hex}/a b")
    bucket = request.getfixturevalue("bucket")
    return open_store(f"s3://{bucket}/a b", aws_options(request.getfixturevalue("aws").url))


def test_objects_are_put_read_listed_and_deleted(store: Store) -> None:
    names = ["x/plain", "x/ü ä%20.bin", "x/deeper/below", "top"]
    for name in names:
        store.put(name, name.encode())
    assert [store.read(name) for name in names] == [name.encode() for name in names]
    assert list(store.list("x")) == [Entry("plain", 7), Entry("ü ä%20.bin", 14)]
    assert list(store.list("")) == [Entry("top", 3)]
    assert list(store.folders("")) == ["x"]
    assert list(store.folders("x")) == ["deeper"]
    assert not list(store.list("nothing"))
    assert not list(store.folders("nothing"))
    store.delete("top")
    store.delete("top")
    with pytest.raises(NotFoundError, match="top"):
        store.read("top")
    with pytest.raises(NotFoundError, match="top"):
        store.source("top")


def test_exactly_one_of_many_creates_an_object(store: Store) -> None:
    """S2.8: the put that commits rely on."""
    with ThreadPoolExecutor(12) as threads:
        won = list(threads.map(lambda n: store.put_if_absent("v", b"%d" % n), range(36)))
    assert won.count(True) == 1
    assert store.read("v") == b"%d" % won.index(True)


def test_ranges_are_read_together_or_at_once(store: Store) -> None:
    data = np.random.default_rng(0).bytes(300_000)
    store.put("x", data)
    store.io.take()
    for size in (None, len(data)):
        source = store.source("x", size)
        assert source.size == len(data)
        wanted = [(290_000, 10_000), (0, 5), (3, 100), (150_000, 7), (9_000, 0), (300_000, 0)]
        fetched = source.read(Ranges.of(*wanted))
        assert [part.tobytes() for part in fetched] == [data[at : at + n] for at, n in wanted]
        # Unknown, the size comes with the last 64 KiB; known, it costs nothing.
        assert store.io.take().read_iops == 3
    with pytest.raises(CorruptFileError, match="do not lie within"):
        source.read(Ranges.of((299_999, 2)))
    source.close()
    with pytest.raises(InvalidInputError, match="closed"):
        source.read(Ranges.of((0, 1)))


def test_an_object_may_be_empty_or_shorter_than_was_told(store: Store) -> None:
    store.put("empty", b"")
    source = store.source("empty")
    assert source.size == 0
    assert len(source.read(Ranges.of((0, 0)))[0]) == 0
    store.put("short", b"12345")
    for at in (3, 7):
        with pytest.raises(CorruptFileError, match="expected 10 bytes"):
            store.source("short", 10).read(Ranges.of((at, 3)))
    with pytest.raises(NotFoundError, match="missing"):
        store.source("missing", 10).read(Ranges.of((0, 3)))


@pytest.mark.parametrize("size", [0, PART_BYTES, 2 * PART_BYTES + 7])
def test_a_sink_writes_front_to_back(store: Store, size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    sink = store.sink("x")
    for start in range(0, size, 3_000_000):
        sink.write(memoryview(data)[start : start + 3_000_000])
    assert sink.position == size
    assert not list(store.list(""))
    sink.finish()
    assert store.read("x") == data
    sink.abort()
    assert list(store.list("")) == [Entry("x", size)]
    with pytest.raises(InvalidInputError, match="finished"):
        sink.write(b"more")


def test_nothing_is_left_of_what_was_aborted(aws: Server, bucket: str) -> None:
    store = open_store(f"s3://{bucket}", aws_options(aws.url))
    for size in (5, 3 * PART_BYTES):
        sink = store.sink("x")
        sink.write(bytes(size))
        sink.abort()
    sink = store.sink("forgotten")
    sink.write(bytes(2 * PART_BYTES))
    del sink
    found = client(aws.url)
    assert "Contents" not in found.list_objects_v2(Bucket=bucket)
    assert "Uploads" not in found.list_multipart_uploads(Bucket=bucket)


def test_requests_are_counted(aws: Server, bucket: str) -> None:
    store = open_store(f"s3://{bucket}/counted", aws_options(aws.url))
    store.put("a", b"123")
    store.put_if_absent("b", b"12")
    store.put_if_absent("b", b"12")
    sink = store.sink("c")
    sink.write(bytes(PART_BYTES + 1))
    sink.finish()
    assert store.io.take() == IOStats(write_iops=4, written_bytes=5 + PART_BYTES + 1)


def test_the_early_names_of_a_listing_do_not_cost_all_of_it(store: Store) -> None:
    for number in range(3):
        store.put(f"x/{number}", b"")
    assert store.lists_in_order
    assert next(iter(store.list("x"))).name == "0"


def test_paths_do_not_leave_the_root(store: Store) -> None:
    with pytest.raises(InvalidInputError, match="leaves the table"):
        store.read("../other")


def test_a_store_travels_to_another_process(aws: Server, bucket: str) -> None:
    options = aws_options(aws.url)
    store = open_store(f"s3://{bucket}/50% of it", options)
    store.put("x", b"seen")
    assert "testing" not in repr(store)
    script = "import pickle, sys; print(pickle.load(sys.stdin.buffer).read('x').decode())"
    found = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(store), capture_output=True, check=True
    )
    assert found.stdout == b"seen\n"


def test_memory_is_of_the_process() -> None:
    open_store("memory://somewhere/table").put("x", b"1")
    assert open_store("memory://somewhere").read("table/x") == b"1"
    again = pickle.loads(pickle.dumps(open_store("memory://somewhere/table")))
    assert again.read("x") == b"1"


def test_files_have_locations_too(aws: Server, bucket: str) -> None:
    uri = f"s3://{bucket}/a%20folder/a%20file"
    store, name = open_object(uri, aws_options(aws.url))
    assert (store.uri, name) == (f"s3://{bucket}/a folder", "a file")
    assert object_uri(store, name) == uri
    with pytest.raises(InvalidInputError, match="location of a file"):
        open_object("s3://bucket")
