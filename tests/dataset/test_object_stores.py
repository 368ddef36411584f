"""What datasets in object stores cost, and that they are as any other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
import pytest
from guard import GUARD_SECONDS
from servers.moto import aws_options, client
from servers.processes import Server
from servers.proxy import Proxy, faulty_proxy

import pilum
from pilum.errors import DatasetNotFoundError

pytest.importorskip("obstore", reason="needs obstore: pip install 'pilum[cloud]'")

ROWS = pa.table({"id": range(20_000), "text": [f"row {n}" for n in range(20_000)]})


@pytest.fixture
def proxy(aws: Server) -> Iterator[Proxy]:
    with faulty_proxy(aws) as proxy:
        yield proxy


@pytest.fixture
def uri(aws: Server) -> str:
    bucket = f"bucket-{uuid4().hex}"
    client(aws.url).create_bucket(Bucket=bucket)
    return f"s3://{bucket}/table"


def reopened(uri: str, options: dict[str, str]) -> pilum.LanceDataset:
    return pilum.dataset(uri, storage_options=options, session=pilum.Session())


@pytest.mark.checklist("S1.4", "S2.8")
def test_requests(proxy: Proxy, uri: str) -> None:
    options = aws_options(proxy.url)

    def asked() -> tuple[int, int]:
        counted = proxy.count("GET"), proxy.count("PUT")
        assert len(proxy.requests) == sum(counted)
        proxy.requests.clear()
        return counted

    pilum.write_dataset(ROWS, uri, storage_options=options)
    # Twice a listing, and two names that the oldest writers used; data, transaction, manifest.
    assert asked() == (6, 3)
    pilum.write_dataset(ROWS, uri, mode="append", storage_options=options)
    assert asked() == (4, 3)  # and the manifest, before the data and before the commit
    dataset = reopened(uri, options)
    assert asked() == (2, 0)
    assert dataset.count_rows() == 40_000
    assert asked() == (0, 0)
    dataset.to_table(columns=["id"])
    assert asked() == (4, 0)  # of each file the end, and the pages
    pilum.dataset(uri, version=1, storage_options=options)
    assert asked() == (1, 0)


def test_many_fragments_are_no_chain_of_waits(proxy: Proxy, uri: str) -> None:
    """Eight fragments are under way at one moment, or the barrier breaks."""
    options = aws_options(proxy.url)
    pilum.write_dataset(ROWS, uri, max_rows_per_file=1000, storage_options=options)
    dataset = reopened(uri, options)
    meeting = threading.Barrier(8, timeout=GUARD_SECONDS)
    waiting = iter(8 * [meeting.wait])
    proxy.before = lambda: next(waiting, int)()
    assert dataset.take(range(0, 20_000, 1000)).num_rows == 20
    assert next(waiting, None) is None
    dataset = reopened(uri, options)
    assert dataset.to_table().equals(ROWS)
    proxy.requests.clear()
    assert reopened(uri, options).head(5).num_rows == 5
    assert proxy.count("GET", "data/") <= 4  # one file, not twenty


def test_a_missing_table_is_told(aws: Server, uri: str) -> None:
    with pytest.raises(DatasetNotFoundError, match=uri):
        pilum.dataset(uri, storage_options=aws_options(aws.url))


def test_the_whole_life_in_memory() -> None:
    uri = f"memory://{uuid4().hex}/table"
    dataset = pilum.write_dataset(ROWS, uri, max_rows_per_file=5000)
    dataset.delete("id % 2 = 0")
    dataset.tags.create("odd", 2)
    dataset.optimize.compact_files()
    pilum.write_dataset(ROWS.slice(0, 1), uri, mode="append")
    assert pilum.dataset(uri).count_rows() == 10_001
    assert pilum.dataset(uri, version="odd").take([0])["id"].to_pylist() == [1]
    pilum.dataset(uri).restore()
    assert pilum.dataset(uri, version=1).to_table().equals(ROWS)


def test_blobs_are_ingested_with_the_storage_options(aws: Server, uri: str) -> None:
    bucket, options = uri.split("/")[2], aws_options(aws.url)
    client(aws.url).put_object(Bucket=bucket, Key="film", Body=b"0123456789")
    films = pilum.blob_array(
        [f"s3://{bucket}/film", pilum.Blob.from_uri(f"s3://{bucket}/film", 2, 3)]
    )
    dataset = pilum.write_dataset(
        pa.table([films], schema=pa.schema([pilum.blob_field("film")])),
        uri,
        storage_options=options,
        external_blob_mode="ingest",
    )
    client(aws.url).delete_object(Bucket=bucket, Key="film")
    assert [data for _, data in dataset.read_blobs("film", indices=[0, 1])] == [
        b"0123456789",
        b"234",
    ]
