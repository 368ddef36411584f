"""Errors of an object store as errors of this package, with a location and without secrets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from pilum.errors import InvalidInputError, NotFoundError, PilumError

__all__ = ["is_out_of_range", "telling"]

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


@contextmanager
def telling(where: str, secrets: Collection[str] = ()) -> Iterator[None]:
    """Translate errors of the client into errors that name the object.

    Args:
        where: The object or folder.
        secrets: Values that no message may contain.

    Raises:
        NotFoundError: If the object or the bucket does not exist.
        PermissionError: If the credentials do not allow the request.
        InvalidInputError: If the path is not valid in object stores.
        OSError: If the store fails.
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
