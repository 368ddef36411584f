"""One DynamoDB table, two libraries: commits of both at once, and each repairs the other's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from servers.moto import aws_options, client
from servers.processes import Server

import pilum
from pilum.table.model.names import NamingScheme

pytestmark = pytest.mark.reference


class Shared:
    """A location that both libraries open, and what stands behind it."""

    def __init__(self, endpoint: str) -> None:
        self.bucket, self.table = f"b{uuid4().hex}", f"t{uuid4().hex}"
        self.options = {**aws_options(endpoint), "dynamodb_endpoint": endpoint}
        self.uri = f"s3+ddb://{self.bucket}/some/orders?ddbTableName={self.table}"
        self.s3, self.entries = client(endpoint), client(endpoint, "dynamodb")
        self.s3.create_bucket(Bucket=self.bucket)
        names = (("base_uri", "HASH", "S"), ("version", "RANGE", "N"))
        self.entries.create_table(
            TableName=self.table,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind, _ in names],
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": kind} for name, _, kind in names
            ],
            BillingMode="PAY_PER_REQUEST",
        )

    def items(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.entries.scan(TableName=self.table)["Items"]
        return sorted(found, key=lambda item: int(item["version"]["N"]))

    def manifests(self) -> list[str]:
        listed = self.s3.list_objects_v2(Bucket=self.bucket, Prefix="some/orders/_versions/")
        return [entry["Key"] for entry in listed["Contents"] if ".manifest" in entry["Key"]]

    def take_back_steps(self, version: int) -> None:
        """Leaves a version as a writer does that died after it had committed."""
        final = f"some/orders/{NamingScheme.V2.manifest_path(version)}"
        staged = f"{final}-{uuid4()}"
        source = {"Bucket": self.bucket, "Key": final}
        self.s3.copy_object(Bucket=self.bucket, Key=staged, CopySource=source)
        self.s3.delete_object(Bucket=self.bucket, Key=final)
        item = {**self.items()[-1], "path": {"S": staged}}
        self.entries.put_item(TableName=self.table, Item=item)


@pytest.fixture
def shared(aws: Server) -> Shared:
    return Shared(aws.url)


@pytest.mark.checklist("S2.10")
def test_both_write_to_one_table(shared: Shared) -> None:
    import lance

    lance.write_dataset(pa.table({"a": [1]}), shared.uri, storage_options=shared.options)
    ours = pilum.dataset(shared.uri, storage_options=shared.options)
    ours.insert({"a": [2]})
    lance.dataset(shared.uri, storage_options=shared.options).insert(pa.table({"a": [3]}))
    ours.checkout_latest()
    assert ours.to_table()["a"].to_pylist() == [1, 2, 3]
    ours.delete("a = 1")
    theirs = lance.dataset(shared.uri, storage_options=shared.options)
    assert theirs.to_table()["a"].to_pylist() == [2, 3]
    items = shared.items()
    assert [item["version"]["N"] for item in items] == ["1", "2", "3", "4"]
    assert {frozenset(item) for item in items} == {
        frozenset({"base_uri", "version", "path", "size", "committer"})
    }
    assert sorted(item["path"]["S"] for item in items) == sorted(shared.manifests())


@pytest.mark.checklist("S2.10")
@pytest.mark.parametrize("creator", ["ours", "theirs"])
def test_branches_are_tables_of_their_own(shared: Shared, creator: str) -> None:
    import lance

    pilum.write_dataset({"a": [1]}, shared.uri, storage_options=shared.options)
    library: Any = pilum if creator == "ours" else lance
    library.dataset(shared.uri, storage_options=shared.options).create_branch("dev")
    ours = pilum.dataset(shared.uri, ("dev", None), storage_options=shared.options)
    ours.insert({"a": [2]})
    main = lance.dataset(shared.uri, storage_options=shared.options)
    theirs = main.checkout_version(("dev", None))
    assert theirs.to_table()["a"].to_pylist() == [1, 2]
    assert main.count_rows() == 1
    bases = [(item["base_uri"]["S"], item["version"]["N"]) for item in shared.items()]
    assert sorted(bases) == [
        ("some/orders", "1"),
        ("some/orders/tree/dev", "1"),
        ("some/orders/tree/dev", "2"),
    ]


@pytest.mark.checklist("S2.10")
@pytest.mark.parametrize("writer", ["ours", "theirs"])
@pytest.mark.parametrize("reader", ["ours", "theirs"])
def test_each_finishes_what_the_other_began(shared: Shared, writer: str, reader: str) -> None:
    import lance

    library = {"ours": pilum, "theirs": lance}
    for value, mode in ((1, "create"), (2, "append")):
        library[writer].write_dataset(
            pa.table({"a": [value]}), shared.uri, mode=mode, storage_options=shared.options
        )
    shared.take_back_steps(2)
    found = library[reader].dataset(shared.uri, storage_options=shared.options)
    assert found.to_table()["a"].to_pylist() == [1, 2]
    assert shared.items()[-1]["path"]["S"].endswith(".manifest")
    assert len(shared.manifests()) == 2
    found.insert(pa.table({"a": [3]}))
    for each in (pilum, lance):
        again = each.dataset(shared.uri, storage_options=shared.options)
        assert again.to_table()["a"].to_pylist() == [1, 2, 3]


@pytest.mark.checklist("S2.8", "S2.10")
def test_writers_of_both_lose_nothing(shared: Shared) -> None:
    import lance

    pilum.write_dataset({"a": [0]}, shared.uri, storage_options=shared.options)

    def append(number: int) -> None:
        library: Any = lance if number % 2 else pilum
        library.write_dataset(
            pa.table({"a": [number]}), shared.uri, mode="append", storage_options=shared.options
        )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(1, 13)))
    for each in (pilum, lance):
        found = each.dataset(shared.uri, storage_options=shared.options)
        assert sorted(found.to_table()["a"].to_pylist()) == list(range(13))
        assert found.version == 13
