"""What went wrong at an object store, as errors of this package: what, where, and no secrets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from pilum.errors import InvalidInputError, NotFoundError, PilumError

__all__ = ["is_out_of_range", "telling"]

_MAX_TEXT = 800
_SHORTEST_SECRET = 4
"""Less would black out words of the message."""

_DETAILS = "\n\nDebug source"
_SIGNATURE = re.compile(r"(?i)\b(sig|signature|token|x-amz-[a-z-]+|x-goog-[a-z-]+)=[^&\s\"'<>]+")
_XML = re.compile(r"<\?xml.*", re.DOTALL)
_CODE = re.compile(r"<Code>(.*?)</Code>", re.DOTALL)
_MESSAGE = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_OUT_OF_RANGE = re.compile(r"InvalidRange|Invalid range|416 Range Not Satisfiable")
_METADATA_SERVICE = re.compile(r"169\.254\.169\.254|metadata\.google\.internal")
_FORBIDDEN = re.compile(r"status code: 40[13]\b")  # listings do not tell it by their class
_WRONG_REGION = re.compile(r"incorrectly configured region|AuthorizationHeaderMalformed")
_NO_CONTAINER = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")


@contextmanager
def telling(where: str, secrets: Collection[str] = ()) -> Iterator[None]:
    """Raises what the client raises as errors that say where.

    Args:
        where: The object or folder.
        secrets: What no message may show.

    Raises:
        NotFoundError: If the object, or the bucket, is not there.
        PermissionError: If the credentials do not allow it.
        InvalidInputError: If the path is not one that object stores have.
        OSError: If the store fails.
    """
    try:
        yield
    except PilumError:
        raise
    except Exception as error:
        raise _translated(error, where, secrets) from None


def is_out_of_range(error: Exception) -> bool:
    """Whether a store says that an object ends before what was asked for."""
    return bool(_OUT_OF_RANGE.search(str(error)))


def _translated(error: Exception, where: str, secrets: Collection[str]) -> Exception:
    text = _readable(str(error), secrets)
    kind = type(error).__name__
    if _METADATA_SERVICE.search(text):
        # Where the client turns to if it was told no credentials.
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
    """The first paragraph, with the code and message of the answer instead of its XML."""
    text = text.partition(_DETAILS)[0]
    if answer := _XML.search(text):
        found = [match[1] for match in (_CODE.search(text), _MESSAGE.search(text)) if match]
        text = text[: answer.start()] + ": ".join(found)
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    text = _SIGNATURE.sub(r"\1=***", text)
    return " ".join(text.split())[:_MAX_TEXT]
