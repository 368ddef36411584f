"""Tables in object stores: each library reads and continues what the other wrote."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from servers.azurite import CONTAINER, azurite_server
from servers.moto import aws_options, client, moto_server
from servers.processes import Server
from servers.versitygw import versitygw_server

import pilum

pytest.importorskip("obstore", reason="needs obstore: pip install 'pilum[cloud]'")
lance = pytest.importorskip("lance")

pytestmark = pytest.mark.reference


@pytest.fixture
def bucket(aws: Server) -> str:
    name = f"bucket-{uuid4().hex}"
    client(aws.url).create_bucket(Bucket=name)
    return f"s3://{name}"


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"id": numbers, "text": [f"row {n}" for n in numbers]})


@pytest.mark.parametrize(("first", "second"), [(pilum, lance), (lance, pilum)])
def test_both_take_turns_on_one_table(aws: Server, bucket: str, first: Any, second: Any) -> None:
    """S1.4, S2.8: create, append, delete and overwrite; every version reads the same."""
    uri, options = f"{bucket}/a table", aws_options(aws.url)
    first.write_dataset(rows(0, 100), uri, storage_options=options)
    second.write_dataset(rows(100, 50), uri, mode="append", storage_options=options)
    first.dataset(uri, storage_options=options).delete("id % 10 = 3")
    second.dataset(uri, storage_options=options).delete("id < 5")
    first.write_dataset(rows(500, 10), uri, mode="append", storage_options=options)
    second.write_dataset(rows(0, 3), uri, mode="overwrite", storage_options=options)
    for version in range(1, 7):
        ours = pilum.dataset(uri, version=version, storage_options=options)
        theirs = lance.dataset(uri, version=version, storage_options=options)
        assert ours.to_table().equals(theirs.to_table())
        some = [0, ours.count_rows() - 1]
        assert ours.take(some).equals(theirs.take(some))


def test_locations_mean_the_same(aws: Server, bucket: str) -> None:
    options = {key.upper(): value for key, value in aws_options(aws.url).items()}
    for name in ("a%20b", "a b", "ü", "50%25", "deep/er/"):
        uri = f"{bucket}/{uuid4().hex}/{name}"
        lance.write_dataset(rows(0, 3), uri, storage_options=options)
        assert pilum.dataset(uri, storage_options=options).count_rows() == 3


def test_appends_of_both_at_once_are_all_in(tmp_path: Path) -> None:
    """S2.8: the conditional put is the same for both."""
    (tmp_path / "bucket").mkdir()
    with versitygw_server(tmp_path) as server:
        uri, options = "s3://bucket/table", aws_options(server.url)
        pilum.write_dataset(rows(0, 1), uri, storage_options=options)

        def append(number: int) -> None:
            library: Any = (pilum, lance)[number % 2]
            for turn in range(3):
                more = rows(10 * number + turn, 1)
                library.write_dataset(more, uri, mode="append", storage_options=options)

        with ThreadPoolExecutor(6) as threads:
            list(threads.map(append, range(1, 7)))
        expected = [10 * number + turn for number in range(1, 7) for turn in range(3)]
        for library in (pilum, lance):
            dataset: Any = library.dataset(uri, storage_options=options)
            assert dataset.version == 19
            assert sorted(dataset.to_table()["id"].to_pylist()) == [0, *expected]


def test_azure() -> None:
    """S2.8: the same on the emulator of another service."""
    with azurite_server() as options:
        uri = f"az://{CONTAINER}/folder/table"
        pilum.write_dataset(rows(0, 100), uri, storage_options=options)
        theirs = {**options, "allow_http": "true"}
        lance.write_dataset(rows(100, 10), uri, mode="append", storage_options=theirs)

        def append(number: int) -> None:
            more = rows(1000 + number, 1)
            pilum.write_dataset(more, uri, mode="append", storage_options=options)

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(append, range(4)))
        pilum.dataset(uri, storage_options=options).delete("id < 5")
        ours = pilum.dataset(uri, storage_options=options)
        assert ours.version == 7
        assert ours.count_rows() == 109
        assert ours.to_table().equals(lance.dataset(uri, storage_options=theirs).to_table())
        store = ours.snapshot.store
        sink = store.sink("large")
        sink.write(bytes(25_000_000))
        sink.finish()
        assert store.source("large").size == 25_000_000


def test_blobs_and_their_sidecars(aws: Server, bucket: str) -> None:
    uri, options = f"{bucket}/blobs", aws_options(aws.url)
    payloads = [b"small", None, b"m" * 100_000, b"l" * 5_000_000]
    schema = pa.schema([pilum.blob_field("b")])
    data = pa.table([pilum.blob_array(payloads)], schema=schema)
    ours = pilum.write_dataset(data, uri, storage_options=options, data_storage_version="2.2")
    theirs = lance.dataset(uri, storage_options=options)
    wanted = [(row, payload) for row, payload in enumerate(payloads) if payload is not None]
    rows_wanted = [row for row, _ in wanted]
    assert ours.read_blobs("b", indices=rows_wanted) == wanted
    files = theirs.take_blobs("b", indices=rows_wanted)
    assert [file.readall() for file in files] == [payload for _, payload in wanted]


@pytest.mark.parametrize("library", [pilum, lance])
def test_blobs_of_local_tables_are_read_with_their_storage_options(
    aws: Server, tmp_path: Path, library: Any
) -> None:
    """Two servers have a bucket of one name: what one dataset has opened, no other one uses."""
    path, options = str(tmp_path / "t"), aws_options(aws.url)
    with moto_server() as other:
        for server, data in ((aws, b"0123456789"), (other, b"abcdefghij")):
            made = client(server.url)
            made.create_bucket(Bucket="films")
            made.put_object(Bucket="films", Key="a/film", Body=data)
        uris = ["s3://films/a/film", library.Blob.from_uri("s3://films/a/film", 2, 3)]
        films = pa.table([library.blob_array(uris)], schema=pa.schema([library.blob_field("film")]))
        library.write_dataset(
            films,
            path,
            storage_options=options,
            data_storage_version="2.2",
            allow_external_blob_outside_bases=True,
        )
        for reader in (pilum, lance):
            for server, expected in (
                (aws, [b"0123456789", b"234"]),
                (other, [b"abcdefghij", b"cde"]),
            ):
                dataset = reader.dataset(path, storage_options=aws_options(server.url))
                found = dataset.read_blobs("film", indices=[0, 1])
                assert [data for _, data in found] == expected
        ingested = pilum.write_dataset(
            pa.table([pilum.blob_array(["s3://films/a/film"])], ["film"]),
            f"{path}2",
            storage_options=aws_options(other.url),
            data_storage_version="2.2",
            external_blob_mode="ingest",
        )
        assert ingested.read_blobs("film", indices=[0])[0][1] == b"abcdefghij"


def test_options_of_base_paths_are_not_mixed(aws: Server, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    with moto_server() as other:
        for server, data in ((aws, b"one"), (other, b"two")):
            made = client(server.url)
            made.create_bucket(Bucket="bases")
            made.put_object(Bucket="bases", Key="a/film", Body=data)
        base = lance.DatasetBasePath("s3://bases/a", name="a", is_dataset_root=False, id=1)
        lance.write_dataset(
            pa.table(
                [lance.blob_array(["s3://bases/a/film"])],
                schema=pa.schema([lance.blob_field("film")]),
            ),
            path,
            initial_bases=[base],
            storage_options=aws_options(aws.url),
            data_storage_version="2.2",
        )
        for server, data in ((aws, b"one"), (other, b"two")):
            params = {"s3://bases/a": aws_options(server.url)}
            dataset = pilum.dataset(path, base_store_params=params)
            assert dataset.read_blobs("film", indices=[0])[0][1] == data
