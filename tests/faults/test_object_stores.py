"""Networks and stores that fail: nothing is lost, nothing is there twice, and errors say where."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from servers.moto import aws_options, client
from servers.processes import Server
from servers.proxy import Fault, Proxy, faulty_proxy
from servers.versitygw import versitygw_server

import pilum
from pilum.errors import NotFoundError
from pilum.storage.open import open_store

pytest.importorskip("obstore", reason="needs obstore: pip install 'pilum[cloud]'")

FIRST = pa.table({"x": [1, 2, 3]})
SECOND = pa.table({"x": [4, 5]})
BOTH = [1, 2, 3, 4, 5]


@pytest.fixture
def proxy(aws: Server) -> Iterator[Proxy]:
    with faulty_proxy(aws) as proxy:
        yield proxy


@pytest.fixture
def options(proxy: Proxy) -> dict[str, str]:
    return {**aws_options(proxy.url), "client_max_retries": "3"}


@pytest.fixture
def uri(aws: Server) -> str:
    bucket = f"bucket-{uuid4().hex}"
    client(aws.url).create_bucket(Bucket=bucket)
    return f"s3://{bucket}/table"


def objects(aws: Server, uri: str, folder: str) -> list[str]:
    found = client(aws.url).list_objects_v2(Bucket=uri.split("/")[2], Prefix=f"table/{folder}/")
    return [entry["Key"].rpartition("/")[2] for entry in found.get("Contents", ())]


def values(uri: str, options: dict[str, str]) -> list[int]:
    found: list[int] = pilum.dataset(uri, storage_options=options).to_table()["x"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("method", "part"),
    [("PUT", "data/"), ("PUT", "_transactions/"), ("PUT", "_versions/"), ("GET", "list-type")],
)
def test_what_is_refused_for_a_moment_is_done_again(
    method: str, part: str, proxy: Proxy, uri: str, options: dict[str, str]
) -> None:
    proxy.plan(method, part, Fault.REFUSED, times=2)
    pilum.write_dataset(FIRST, uri, storage_options=options)
    assert proxy.planned == 0
    assert values(uri, options) == [1, 2, 3]


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.DONE_BUT_REFUSED])
def test_a_commit_without_an_answer_is_in_once(
    fault: Fault, proxy: Proxy, uri: str, options: dict[str, str]
) -> None:
    """S2.8, S2.9: the put won and its repetition loses against itself."""
    pilum.write_dataset(FIRST, uri, storage_options=options)
    proxy.plan("PUT", "_versions/", fault)
    dataset = pilum.write_dataset(SECOND, uri, mode="append", storage_options=options)
    assert proxy.planned == 0
    assert dataset.version == 2
    assert dataset.latest_version == 2
    assert values(uri, options) == BOTH


def test_answers_that_are_cut_short_are_read_again(
    proxy: Proxy, uri: str, options: dict[str, str]
) -> None:
    pilum.write_dataset(FIRST, uri, storage_options=options)
    proxy.plan("GET", "_versions/1", Fault.CUT)
    proxy.plan("GET", "data/", Fault.CUT, times=2)
    assert values(uri, options) == [1, 2, 3]
    assert proxy.planned == 0


def test_a_write_that_fails_for_good_leaves_the_table_as_it_was(
    aws: Server, proxy: Proxy, uri: str, options: dict[str, str]
) -> None:
    pilum.write_dataset(FIRST, uri, storage_options=options)
    before = objects(aws, uri, "data")
    proxy.plan("PUT", "data/", Fault.REFUSED, times=4)
    with pytest.raises(OSError, match=r"table/data/.*503") as caught:
        pilum.write_dataset(SECOND, uri, mode="append", storage_options=options)
    assert "testing" not in str(caught.value)
    assert objects(aws, uri, "data") == before
    assert len(objects(aws, uri, "_versions")) == 1
    pilum.write_dataset(SECOND, uri, mode="append", storage_options=options)
    assert values(uri, options) == BOTH


def test_nothing_is_left_of_a_large_file_that_fails(
    aws: Server, proxy: Proxy, uri: str, options: dict[str, str]
) -> None:
    bucket = uri.split("/")[2]
    store = open_store(uri, options)
    proxy.plan("PUT", "partNumber=2", Fault.REFUSED, times=4)
    sink = store.sink("large")
    sink.write(bytes(40_000_000))
    with pytest.raises(OSError, match="table/large"):
        sink.finish()
    sink.abort()
    assert objects(aws, uri, "") == []
    assert "Uploads" not in client(aws.url).list_multipart_uploads(Bucket=bucket)


def test_writers_at_once_lose_nothing(aws: Server, uri: str) -> None:
    """S2.8: of eight that append at one moment, each is in, once."""
    options = aws_options(aws.url)
    pilum.write_dataset(FIRST, uri, storage_options=options)

    def append(number: int) -> None:
        for turn in range(2):
            rows = pa.table({"x": [100 + 10 * number + turn]})
            pilum.write_dataset(rows, uri, mode="append", storage_options=options)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(append, range(8)))
    expected = [100 + 10 * number + turn for number in range(8) for turn in range(2)]
    assert sorted(values(uri, options)) == [1, 2, 3, *expected]
    versions = pilum.dataset(uri, storage_options=options).versions()
    assert [version["version"] for version in versions] == list(range(1, 18))


def test_a_server_that_dies_takes_no_version_with_it(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    uri = "s3://bucket/table"
    with versitygw_server(tmp_path) as server:
        options = aws_options(server.url)
        pilum.write_dataset(FIRST, uri, storage_options=options)
        open_now = pilum.dataset(uri, storage_options={**options, "client_max_retries": "1"})
        server.process.kill()
        with pytest.raises(OSError, match=r"s3://bucket/table/.*(error sending|Connection)"):
            open_now.insert(SECOND)
    with versitygw_server(tmp_path) as server:
        options = aws_options(server.url)
        assert values(uri, options) == [1, 2, 3]
        pilum.write_dataset(SECOND, uri, mode="append", storage_options=options)
        assert values(uri, options) == BOTH


def test_who_has_no_right_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    with versitygw_server(tmp_path) as server:
        options = {**aws_options(server.url), "aws_secret_access_key": "not-the-one"}
        with pytest.raises(PermissionError, match=r"s3://bucket/table/.* do not allow") as caught:
            pilum.write_dataset(FIRST, "s3://bucket/table", storage_options=options)
    assert "not-the-one" not in str(caught.value)


def test_who_has_no_bucket_or_no_server_is_told_so(aws: Server) -> None:
    options = {**aws_options(aws.url), "client_max_retries": "0"}
    with pytest.raises(NotFoundError, match="no such bucket"):
        pilum.dataset("s3://no-bucket-here/table", storage_options=options)
    with pytest.raises(NotFoundError, match="no such bucket"):
        pilum.write_dataset(FIRST, "s3://no-bucket-here/table", storage_options=options)
    options["aws_endpoint"] = "http://127.0.0.1:1"
    with pytest.raises(OSError, match=r"s3://bucket/table/_versions.*127\.0\.0\.1:1"):
        pilum.dataset("s3://bucket/table", storage_options=options)
