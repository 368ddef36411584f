"""Credentials that a catalog vends are renewed before they expire."""

from __future__ import annotations

import os
import pickle
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from pilum.errors import InvalidInputError
from pilum.storage.cloud_credentials import VendedCredentials
from pilum.storage.cloud_options import AZURE, GCS, S3, Service
from pilum.storage.open import open_store
from pilum.storage.renewable import Renewable

pytest.importorskip("obstore")

PAST, FUTURE = "0", "99999999999999"


@dataclass
class Objects:
    """A server with an object at each address, which records the keys of requests."""

    url: str
    keys: list[str] = field(default_factory=list)


@pytest.fixture
def objects() -> Iterator[Objects]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            key = re.search("Credential=([^/]+)", self.headers["Authorization"])
            assert key is not None
            found.keys.append(key[1])
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Mon, 23 Nov 2026 22:34:21 GMT")
            self.end_headers()
            self.wfile.write(b"data")

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Objects(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def keys(number: int, millis: str) -> dict[str, str]:
    return {
        "aws_access_key_id": f"key{number}",
        "aws_secret_access_key": "secret",
        "aws_session_token": "token",
        "expires_at_millis": millis,
    }


class Catalog:
    """Vends the next of several keys at each call."""

    def __init__(self, *expiries: str) -> None:
        self.vended = [keys(number, expiry) for number, expiry in enumerate(expiries)]
        self.calls = 0

    def options(self, url: str) -> dict[str, str]:
        first = self.vended[0]
        expiry = Renewable(first["expires_at_millis"], self.renew)
        return {**first, "expires_at_millis": expiry, "endpoint": url, "region": "us-east-1"}

    def renew(self) -> Mapping[str, str]:
        self.calls += 1
        return self.vended[self.calls]


@pytest.mark.parametrize(
    ("expiries", "expected", "calls"),
    [((FUTURE,), ["key0"] * 3, 0), ((PAST, FUTURE), ["key1"] * 3, 1)],
    ids=["valid", "expired"],
)
def test_credentials_are_renewed_when_they_expire(
    objects: Objects, expiries: tuple[str, ...], expected: list[str], calls: int
) -> None:
    catalog = Catalog(*expiries)
    store = open_store("s3://bucket/a", catalog.options(objects.url))
    for _ in expected:
        assert store.read("object") == b"data"
    assert (objects.keys, catalog.calls) == (expected, calls)


def test_an_expired_key_is_renewed_in_use_and_in_stores_beside(objects: Objects) -> None:
    catalog = Catalog(PAST, PAST, FUTURE)
    store = open_store("s3://bucket/a", catalog.options(objects.url))
    store.read("object")
    open_store("s3://bucket/b", store.options).read("object")
    assert (objects.keys, catalog.calls) == (["key1", "key2"], 2)


def test_stores_with_the_same_renewal_share_a_client(objects: Objects) -> None:
    catalog, other = Catalog(FUTURE), Catalog(FUTURE)
    first, again, third = (
        open_store("s3://bucket/a", one.options(objects.url)) for one in (catalog, catalog, other)
    )
    assert first.identity == again.identity != third.identity


def test_errors_of_the_catalog_are_reported(objects: Objects) -> None:
    catalog = Catalog(PAST, FUTURE)
    store = open_store("s3://bucket/a", {**catalog.options(objects.url), "client_max_retries": "0"})
    catalog.vended[1] = {"expires_at_millis": FUTURE}
    with pytest.raises(OSError, match="no more credentials"):
        store.read("object")
    for bad in ({"expires_at_millis": Renewable("soon", catalog.renew)},):
        with pytest.raises(InvalidInputError, match="milliseconds"):
            open_store("s3://bucket/a", {**catalog.options(objects.url), **bad})


def vended(millis: str, renew: Any) -> VendedCredentials:
    return VendedCredentials(S3, keys(0, millis), Renewable(millis, renew))


def test_credentials_that_are_valid_are_used_if_they_cannot_be_renewed() -> None:
    soon = {"refresh_offset_millis": "9" * 12}
    tomorrow = str(int((datetime.now(UTC) + timedelta(days=1)).timestamp() * 1000))

    def fail() -> Mapping[str, str]:
        raise ConnectionError("the catalog is down")

    for renew in (fail, dict):
        options = keys(0, tomorrow) | soon
        found = VendedCredentials(S3, options, Renewable(tomorrow, renew))()
        assert found["access_key_id"] == "key0"


def test_the_catalog_is_asked_again_after_an_answer_without_credentials() -> None:
    answers = [{}, keys(1, FUTURE)]
    credentials = vended(PAST, lambda: answers.pop(0))
    with pytest.raises(InvalidInputError):
        credentials()
    assert credentials()["access_key_id"] == "key1"


def test_a_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    credentials = vended(FUTURE, named)
    with credentials._guard.lock:  # as if another thread were renewing
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(0 if credentials()["access_key_id"] == "key0" else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("service", "options", "expected"),
    [
        (GCS, {"google_storage_token": "t"}, {"token": "t"}),
        (AZURE, {"azure_storage_sas_token": "t"}, {"sas_token": "t"}),
        (AZURE, {"bearer_token": "t"}, {"token": "t"}),
        (AZURE, {"account_key": "t"}, {"access_key": "t"}),
        (S3, {"access_key_id": "k", "secret_access_key": "s"},
         {"access_key_id": "k", "secret_access_key": "s", "token": None}),
    ],
)  # fmt: skip
def test_each_service_has_its_credentials(
    service: Service, options: dict[str, str], expected: dict[str, Any]
) -> None:
    expiry = Renewable(PAST, lambda: {**options, "expires_at_millis": "2000"})
    found = VendedCredentials(service, {**options, "expires_at_millis": PAST}, expiry)()
    assert found == {**expected, "expires_at": datetime.fromtimestamp(2, UTC)}


def test_the_function_travels_with_the_options_if_it_can_be_pickled() -> None:
    sent = pickle.loads(pickle.dumps({"expires_at_millis": Renewable("7", named)}))
    assert (sent["expires_at_millis"], sent["expires_at_millis"].renew) == ("7", named)
    lost = pickle.loads(pickle.dumps({"expires_at_millis": Renewable("7", lambda: named())}))
    assert lost == {"expires_at_millis": "7"}
    assert type(lost["expires_at_millis"]) is str


def named() -> Mapping[str, str]:
    return {}
