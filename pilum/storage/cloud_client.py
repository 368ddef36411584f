"""Clients of object stores, and their errors as errors of this package.

All tables of a bucket that are opened with the same options share one client. Messages contain a
location and no secrets. A process that was forked after the first use has no threads that its copy
of a client could wait for, so it must not use one.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

from pilum.errors import InvalidInputError, MissingDependencyError, NotFoundError, PilumError
from pilum.parallel import renew_in_child
from pilum.storage.cloud_credentials import (
    VendedCredentials,
    credential_names,
    vended_credentials,
)
from pilum.storage.cloud_options import (
    AZURE,
    GCS,
    S3,
    Service,
    Settings,
    credential_provider,
    find_profile,
    settings_of,
)

__all__ = ["Bucket", "is_out_of_range", "memory_bucket", "open_bucket", "translate_errors"]

Provider: TypeAlias = VendedCredentials | str | None
"""What gets credentials: a catalog, or the AWS profile of this name; None for given ones."""

_EXPRESS_SUFFIX = "--x-s3"
_MAX_CLIENTS = 64
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

_MAX_TEXT = 800
_SHORTEST_SECRET = 4
"""Replacing shorter secrets would black out ordinary words of the message."""

_DETAILS = "\n\nDebug source"
_SIGNATURE = re.compile(r"(?i)\b(sig|signature|token|x-amz-[a-z-]+|x-goog-[a-z-]+)=[^&\s\"'<>]+")
_XML = re.compile(r"<\?xml.*", re.DOTALL)
_CODE = re.compile(r"<Code>(.*?)</Code>", re.DOTALL)
_MESSAGE = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_OUT_OF_RANGE = re.compile(r"InvalidRange|Invalid range|416 Range Not Satisfiable")
_METADATA_SERVICE = re.compile(r"169\.254\.169\.254|metadata\.google\.internal")
_FORBIDDEN = re.compile(r"status code: 40[13]\b")  # errors of listings have no class of their own
_WRONG_REGION = re.compile(r"incorrectly configured region|AuthorizationHeaderMalformed")
_NO_CONTAINER = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Bucket:
    """A client for one bucket or container, and the capabilities of its service.

    Attributes:
        client: The client of obstore.
        secrets: Values that no message may contain.
        has_suffix_ranges: Whether the end of an object can be read without knowing its size.
        lists_in_order: Whether listings are sorted.
        process: The process that may use the client; None if all may.
        number: A number that no other bucket of this process has.
    """

    client: Any
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    has_suffix_ranges: bool = True
    lists_in_order: bool = True
    process: int | None = None
    number: int = field(default_factory=_numbers.__next__, compare=False)

    def translate_errors(self, where: str) -> AbstractContextManager[None]:
        """Translate errors of the client into errors that name the object.

        InvalidInputError is raised in a forked process, whose copy of the client waits for threads
        that do not exist there.
        """
        if self.process is not None and self.process != os.getpid():
            raise InvalidInputError(
                f"{where}: object stores cannot be used in a process that was forked after their "
                'first use; start processes with "spawn" or "forkserver"'
            )
        return translate_errors(where, self.secrets)


class _Clients:
    """The clients of this process. The oldest is dropped when there are more than 64."""

    def __init__(self) -> None:
        self._process: int | None = None
        self._memory: Bucket | None = None
        self._buckets: OrderedDict[Hashable, Bucket] = OrderedDict()
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        """Take a fresh lock; the process that may use the clients stays the same."""
        self._lock = threading.Lock()

    def memory(self) -> Bucket:
        """Return the memory of the process, in which all locations of memory are."""
        with self._lock:
            self._note_process()
            self._memory = self._memory or Bucket(_obstore().MemoryStore())
            return self._memory

    def find(self, key: Hashable, make: Callable[[int], Bucket]) -> Bucket:
        """Return the bucket of a key; if there is none, make it for the process that may use it."""
        with self._lock:
            process = self._note_process()
            if key in self._buckets:
                self._buckets.move_to_end(key)
            else:
                self._buckets[key] = make(process)
                if len(self._buckets) > _MAX_CLIENTS:
                    self._buckets.popitem(last=False)
            return self._buckets[key]

    def _note_process(self) -> int:
        """Return the first process that used a client; forked copies lack the client's threads."""
        if self._process is None:
            self._process = os.getpid()
        return self._process


_clients = _Clients()


def memory_bucket() -> Bucket:
    """Return the memory of the process; opening a location again finds what was written there."""
    return _clients.memory()


def open_bucket(uri: str, service: Service, authority: str, options: dict[str, Any]) -> Bucket:
    """Return the client for the bucket of a location. Nothing is requested yet."""
    container, at, host = authority.partition("@")
    if not container or (at and service is not AZURE):
        raise InvalidInputError(f"{uri}: expected {uri.partition(':')[0]}://bucket/path")
    if at:
        options = {**options, "azure_storage_account_name": host.partition(".")[0]}
    settings, obstore = settings_of(service, options), _obstore()
    provider: Provider = vended_credentials(service, options)
    if provider is not None:
        settings = settings.without(credential_names(service))
    elif service is S3 and not settings.has_any(_S3_CREDENTIALS) and (profile := find_profile()):
        settings, provider = settings.completed(S3, profile.config), profile.provider_name
    make = partial(_make_bucket, obstore, service.name, container, settings, provider)
    with translate_errors(uri, settings.secrets):
        return _clients.find((service.name, container, settings, provider), make)


def _make_bucket(
    obstore: ModuleType,
    service: str,
    bucket: str,
    settings: Settings,
    provider: Provider,
    process: int,
) -> Bucket:
    config, secrets = dict(settings.config), settings.secrets
    more: dict[str, Any] = {
        "client_options": dict(settings.client),
        "retry_config": {
            "max_retries": settings.max_retries,
            "retry_timeout": timedelta(seconds=settings.retry_seconds),
        },
    }
    if provider is not None:
        more["credential_provider"] = (
            credential_provider(provider) if isinstance(provider, str) else provider
        )
    if service == GCS.name:
        return Bucket(obstore.GCSStore(bucket, config=config, **more), secrets, process=process)
    if service == AZURE.name:
        client = obstore.AzureStore(bucket, config=config, **more)
        return Bucket(client, secrets, has_suffix_ranges=False, process=process)
    is_express = bucket.endswith(_EXPRESS_SUFFIX) or config.get("s3_express") == "true"
    if is_express:
        config["s3_express"] = "true"
    config = {f"aws_{name}": value for name, value in config.items()}
    client = obstore.S3Store(bucket, config=config, **more)
    return Bucket(client, secrets, lists_in_order=not is_express, process=process)


def _obstore() -> ModuleType:
    try:
        return import_module("obstore.store")
    except ImportError as error:
        raise MissingDependencyError(
            "object stores need obstore: pip install 'pilum[cloud]'"
        ) from error


@contextmanager
def translate_errors(where: str, secrets: Collection[str] = ()) -> Iterator[None]:
    """Translate errors of the client into errors that name the object or folder.

    No message contains a secret. An error is NotFoundError, PermissionError, InvalidInputError (if
    the path is not valid in object stores) or another OSError.
    """
    try:
        yield
    except PilumError:
        raise
    except Exception as error:
        raise _translated(error, where, secrets) from None


def is_out_of_range(error: Exception) -> bool:
    """Return whether an error means that the object ends before the requested range."""
    return bool(_OUT_OF_RANGE.search(str(error)))


def _translated(error: Exception, where: str, secrets: Collection[str]) -> Exception:
    text = _readable(str(error), secrets)
    kind = type(error).__name__
    if _METADATA_SERVICE.search(text):
        # The client asks this address for credentials if none were passed.
        return PermissionError(
            f"{where}: no credentials in storage_options or the environment, nor from the machine: "
            + text
        )
    if _WRONG_REGION.search(text):
        return OSError(
            f'{where}: set the storage option "aws_region" to that of the bucket: {text}'
        )
    if any(sign in text for sign in _NO_CONTAINER):
        return NotFoundError(f"{where}: there is no such bucket or container: {text}")
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"{where}: there is no such object: {text}")
    if kind in {"PermissionDeniedError", "UnauthenticatedError"} or _FORBIDDEN.search(text):
        return PermissionError(f"{where}: the credentials do not allow it: {text}")
    if isinstance(error, ValueError):
        return InvalidInputError(f"{where}: {text}")
    return OSError(f"{where}: {text}")


def _readable(text: str, secrets: Collection[str]) -> str:
    """Return the first paragraph, with the code and message of the response instead of its XML."""
    text = text.partition(_DETAILS)[0]
    if answer := _XML.search(text):
        found = [match[1] for match in (_CODE.search(text), _MESSAGE.search(text)) if match]
        text = text[: answer.start()] + ": ".join(found)
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    text = _SIGNATURE.sub(r"\1=***", text)
    return " ".join(text.split())[:_MAX_TEXT]
