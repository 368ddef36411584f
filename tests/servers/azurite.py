"""Azurite, the emulator of Azure's object store, where it is installed."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from guard import GUARD_SECONDS
from servers.cache import CACHE
from servers.processes import free_port, running

__all__ = ["CONTAINER", "azurite_server"]

CONTAINER = "container"
_FOLDER = CACHE / "azurite-3.35.0"
_ACCOUNT = "devstoreaccount1"
_VERSION = "2021-08-06"
# Known to everybody: the key of all emulators.
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def azurite_server() -> Iterator[dict[str, str]]:
    """Storage options for a fresh server with one container; skips where it is not installed."""
    path = str(_FOLDER / "node_modules" / ".bin")
    program = shutil.which("azurite-blob") or shutil.which("azurite-blob", path=path)
    if program is None:
        pytest.skip("needs Azurite: make servers, with npm")
    port = free_port()
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command = [program, *where, "--silent", "--inMemoryPersistence", "--skipApiVersionCheck"]
    with running(command, port) as server:
        endpoint = f"{server.url}/{_ACCOUNT}"
        _create_container(endpoint)
        yield {"account_name": _ACCOUNT, "account_key": _KEY, "azure_endpoint": endpoint}


def _create_container(endpoint: str) -> None:
    date = email.utils.formatdate(usegmt=True)
    headers = f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n"
    resource = f"/{_ACCOUNT}/{_ACCOUNT}/{CONTAINER}\nrestype:container"
    text = "PUT" + 12 * "\n" + headers + resource
    key = base64.b64decode(_KEY)
    signature = base64.b64encode(hmac.digest(key, text.encode(), hashlib.sha256)).decode()
    request = urllib.request.Request(
        f"{endpoint}/{CONTAINER}?restype=container",
        method="PUT",
        headers={
            "Authorization": f"SharedKey {_ACCOUNT}:{signature}",
            "Content-Length": "0",
            "x-ms-date": date,
            "x-ms-version": _VERSION,
        },
    )
    urllib.request.urlopen(request, timeout=GUARD_SECONDS).close()
