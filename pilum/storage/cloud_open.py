"""Open a location of an object store: find its service, bucket and prefix.

    s3://bucket/path   s3a://…                     S3 and compatible services
    gs://bucket/path                               Google Cloud Storage
    az://container/path   azure://…                Azure; the account is a storage option
    abfss://container@account.dfs.core.windows.net/path   …; or is part of the location
    memory://any/path                              memory of this process, lost when it ends

All tables of a bucket that are opened with the same options share one client.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache, lru_cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any
from urllib.parse import unquote

from pilum.errors import InvalidInputError, MissingDependencyError
from pilum.storage.aws_profile import find_profile
from pilum.storage.cloud import Bucket, CloudStore
from pilum.storage.cloud_errors import telling
from pilum.storage.cloud_options import AZURE, GCS, S3, Service, Settings, settings_of

__all__ = ["MEMORY_SCHEMES", "SERVICES", "open_cloud"]

MEMORY_SCHEMES = frozenset({"memory", "shared-memory"})
SERVICES = {
    "s3": S3,
    "s3a": S3,
    "gs": GCS,
    "gcs": GCS,
    "az": AZURE,
    "azure": AZURE,
    "abfs": AZURE,
    "abfss": AZURE,
}

_SPECIAL = re.compile("[%?#]")
_EXPRESS_SUFFIX = "--x-s3"
_CLIENTS = 64
_S3_CREDENTIALS = frozenset(
    {
        "access_key_id",
        "container_credentials_full_uri",
        "container_credentials_relative_uri",
        "skip_signature",
        "web_identity_token_file",
    }
)
"""With any of these settings, no profile is needed."""


def open_cloud(uri: str, options: Mapping[str, Any] | None = None) -> CloudStore:
    """Open the store at a location. Nothing is read or written yet.

    Args:
        uri: A location with a scheme of `SERVICES` or `MEMORY_SCHEMES`.
        options: Storage options, see `pilum.storage.cloud_options`.

    Raises:
        InvalidInputError: If the location or an option is invalid.
        MissingDependencyError: If obstore is not installed.
    """
    scheme, _, rest = uri.partition("://")
    scheme, given = scheme.lower(), dict(options or {})
    if "?" in rest or "#" in rest:
        raise InvalidInputError(f"{uri}: expected no ? or # in the location")
    authority, _, path = rest.partition("/")
    root = unquote(path).strip("/")
    if root and {"", ".", ".."} & set(root.split("/")):
        raise InvalidInputError(f"{uri}: expected no empty part, . or .. in the location")
    if scheme in MEMORY_SCHEMES:
        root, bucket = f"{authority}/{root}".strip("/"), _memory(_obstore())
    else:
        bucket = _bucket(uri, SERVICES[scheme], authority, given)
    # Opening the store by its `uri` again must find the same place.
    plain = _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", unquote(path))
    uri = f"{scheme}://{authority}/{plain}".rstrip("/")
    return CloudStore(uri, root, bucket, partial(open_cloud, uri, given))


def _bucket(uri: str, service: Service, authority: str, options: dict[str, Any]) -> Bucket:
    container, at, host = authority.partition("@")
    if not container or (at and service is not AZURE):
        raise InvalidInputError(f"{uri}: expected {uri.partition(':')[0]}://bucket/path")
    if at:
        options = {**options, "azure_storage_account_name": host.partition(".")[0]}
    settings, obstore, provider = settings_of(service, options), _obstore(), None
    if service is S3 and not settings.has_any(_S3_CREDENTIALS) and (profile := find_profile()):
        settings, provider = settings.completed(S3, profile.config), profile.provider
    with telling(uri, settings.secrets):
        return _client(obstore, service.name, container, settings, provider)


@lru_cache(maxsize=_CLIENTS)
def _client(
    obstore: ModuleType,
    service: str,
    bucket: str,
    settings: Settings,
    provider: Callable[[], Any] | None,
) -> Bucket:
    config = dict(settings.config)
    more: dict[str, Any] = {
        "client_options": dict(settings.client),
        "retry_config": {
            "max_retries": settings.max_retries,
            "retry_timeout": timedelta(seconds=settings.retry_seconds),
        },
    }
    secrets, process = settings.secrets, _home_process()
    if service == GCS.name:
        return Bucket(obstore.GCSStore(bucket, config=config, **more), secrets, process=process)
    if service == AZURE.name:
        client = obstore.AzureStore(bucket, config=config, **more)
        return Bucket(client, secrets, has_suffix_ranges=False, process=process)
    is_express = bucket.endswith(_EXPRESS_SUFFIX) or config.get("s3_express") == "true"
    if is_express:
        config["s3_express"] = "true"
    config = {f"aws_{name}": value for name, value in config.items()}
    if provider is not None:
        more["credential_provider"] = provider
    client = obstore.S3Store(bucket, config=config, **more)
    return Bucket(client, secrets, lists_in_order=not is_express, process=process)


@cache
def _memory(obstore: ModuleType) -> Bucket:
    """Return the memory of the process; opening a location again finds what was written there."""
    _home_process()
    return Bucket(obstore.MemoryStore())


@cache
def _home_process() -> int:
    """Return the first process that used the client; forked copies lack the client's threads."""
    return os.getpid()


@cache
def _obstore() -> ModuleType:
    try:
        return import_module("obstore.store")
    except ImportError as error:
        raise MissingDependencyError(
            "object stores need obstore: pip install 'pilum[cloud]'"
        ) from error
