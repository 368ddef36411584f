"""Credentials of object stores that a catalog vends for some time (`renewable.py`).

The client of an object store asks `VendedCredentials` before the ones it has expire. These ask the
catalog a minute before, or as long before as the option `refresh_offset_millis` says.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pilum.errors import InvalidInputError
from pilum.parallel import renew_in_child
from pilum.storage.cloud_options import AZURE, GCS, S3, Service
from pilum.storage.renewable import EXPIRES_AT, Renew, Renewable

__all__ = ["VendedCredentials", "credential_names", "vended_credentials"]

_log = logging.getLogger(__name__)
_OFFSET: Final = "refresh_offset_millis"
_DEFAULT_OFFSET_MILLIS: Final = 60_000


class VendedCredentials:
    """The credential provider of a client of obstore, which calls it when they are about to expire.

    Two are equal if their functions are.
    """

    def __init__(self, service: Service, options: Mapping[str, Any], expiry: Renewable) -> None:
        """Begin with the credentials of the options."""
        self._service = service
        self._options: Mapping[str, Any] = options
        self._renew = expiry.renew
        self._guard = _Guard()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VendedCredentials) and self._renew == other._renew

    def __hash__(self) -> int:
        return hash(self._renew)

    def __call__(self) -> dict[str, Any]:
        """Return the credentials in the form of obstore, renewed if they expire soon."""
        with self._guard.lock:
            if datetime.now(UTC) >= _expiry(self._options) - _offset(self._options):
                self._renew_options()
            return _credential(self._service, self._options)

    def _renew_options(self) -> None:
        """Replace the options, unless that fails while they are still valid."""
        try:
            options = _in_a_thread(self._renew)
            _credential(self._service, options)  # an answer without credentials replaces none
        except Exception as error:
            if datetime.now(UTC) >= _expiry(self._options):
                raise
            _log.warning(
                "credentials of %s could not be renewed, and expire soon: %s",
                self._service.name,
                type(error).__name__,
            )
        else:
            self._options = options


class _Guard:
    """A lock, which in the child of a fork is a new one: a thread of the parent may hold it."""

    def __init__(self) -> None:
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        self.lock = threading.Lock()


def vended_credentials(service: Service, options: Mapping[str, Any]) -> VendedCredentials | None:
    """Return the credential provider for options, None if they have no credentials to renew."""
    expiry = options.get(EXPIRES_AT)
    if not isinstance(expiry, Renewable) or _found(service, options) is None:
        return None
    _expiry(options)  # an error of the catalog is an error of opening
    return VendedCredentials(service, options, expiry)


def _in_a_thread(renew: Renew) -> Mapping[str, str]:
    """Call the function in a thread of its own, as a catalog may use object stores itself."""
    found: list[Mapping[str, str]] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            found.append(renew())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="pilum-credentials", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return found[0]


def _expiry(options: Mapping[str, Any]) -> datetime:
    text = str(options.get(EXPIRES_AT, ""))
    if not text.isdecimal():
        raise InvalidInputError(
            f"{EXPIRES_AT}: expected milliseconds since 1970 beside vended credentials, found "
            f"{text!r}"
        )
    try:
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.max.replace(tzinfo=UTC)


def _offset(options: Mapping[str, Any]) -> timedelta:
    text = str(options.get(_OFFSET, _DEFAULT_OFFSET_MILLIS))
    if not text.isdecimal():
        raise InvalidInputError(f"{_OFFSET}: expected milliseconds, found {text!r}")
    return timedelta(milliseconds=min(int(text), 10**12))


_FORMS: Final[Mapping[str, tuple[Mapping[str, str], ...]]] = {
    S3.name: (
        {
            "access_key_id": "access_key_id",
            "secret_access_key": "secret_access_key",
            "session_token": "token",
        },
    ),
    GCS.name: ({"bearer_token": "token"},),
    AZURE.name: ({"sas_key": "sas_token"}, {"token": "token"}, {"account_key": "access_key"}),
}
"""Credentials of a service by the names of its settings, with their names in obstore."""

_OPTIONAL: Final = "session_token"


def credential_names(service: Service) -> frozenset[str]:
    """Return the settings of a service that a credential provider replaces."""
    return frozenset(name for form in _FORMS[service.name] for name in form)


def _credential(service: Service, options: Mapping[str, Any]) -> dict[str, Any]:
    found = _found(service, options)
    if found is None:
        expected = " or ".join(", ".join(form) for form in _FORMS[service.name])
        raise InvalidInputError(
            f"the catalog vends no more credentials of {service.name}: expected {expected}, found "
            f"{', '.join(sorted(map(str, options))) or 'no options'}"
        )
    return {**found, "expires_at": _expiry(options)}


def _found(service: Service, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the credentials in the form of obstore, None if there are none."""
    given = {service.find(key): value for key, value in options.items()}
    for form in _FORMS[service.name]:
        if all(name in given for name in form if name != _OPTIONAL):
            return {theirs: given.get(name) for name, theirs in form.items()}
    return None
