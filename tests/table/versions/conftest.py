"""The key-value stores that decide about versions: a file, and two real servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from servers.moto import aws_options, client
from servers.postgresql import postgresql_server
from servers.processes import Server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Location of the database of one server for all tests."""
    with postgresql_server() as location:
        yield location


@pytest.fixture
def dynamodb_table(aws: Server) -> str:
    """Name of a new table with the reference's keys."""
    name = f"manifests-{uuid4()}"
    client(aws.url, "dynamodb").create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": "base_uri", "KeyType": "HASH"},
            {"AttributeName": "version", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "base_uri", "AttributeType": "S"},
            {"AttributeName": "version", "AttributeType": "N"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return name


@pytest.fixture(params=["sqlite", "postgresql", "dynamodb"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Storage options that name each of the stores."""
    if request.param == "sqlite":
        return {"manifest_store": f"sqlite://{tmp_path}/entries.db"}
    if request.param == "postgresql":
        return {"manifest_store": request.getfixturevalue("postgresql")}
    server, name = request.getfixturevalue("aws"), request.getfixturevalue("dynamodb_table")
    return {
        "manifest_store": f"dynamodb://{name}",
        "dynamodb_endpoint": server.url,
        **aws_options(server.url),
    }
