"""moto's server: S3, DynamoDB and more of AWS in one process, all of it in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from servers.processes import Server, free_port, running

__all__ = ["KEY", "REGION", "aws_options", "client", "moto_server"]

REGION = "us-east-1"
KEY = "testing"


@contextmanager
def moto_server() -> Iterator[Server]:
    """A fresh server, `server.url` is the endpoint of every service; skips where moto is not."""
    pytest.importorskip("moto.server", reason="needs moto: pip install 'moto[s3,dynamodb]' flask")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running(command, port) as server:
        yield server


def aws_options(endpoint: str) -> dict[str, str]:
    """Storage options for S3 at an endpoint, as users write them."""
    return {
        "aws_endpoint": endpoint,
        "aws_access_key_id": KEY,
        "aws_secret_access_key": KEY,
        "aws_region": REGION,
        "allow_http": "true",
    }


def client(endpoint: str, service: str = "s3") -> Any:
    """A client of boto3, to make buckets and tables and to look behind the curtain."""
    import boto3

    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=KEY,
        aws_secret_access_key=KEY,
    )
