"""Storage options that expire, such as credentials, together with the way to newer ones.

    {"aws_access_key_id": …, "aws_secret_access_key": …, "aws_session_token": …,
     "expires_at_millis": "1795474098375"}

The value of `expires_at_millis` is the carrier: a `Renewable` is this text, and has a function that
returns newer options. Options are copied and merged as others, so that all stores of a table renew
their credentials, those of its branches and base paths included.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

__all__ = ["EXPIRES_AT", "Renew", "Renewable"]

EXPIRES_AT: Final = "expires_at_millis"

Renew = Callable[[], Mapping[str, str]]
"""Returns the current options, credentials and `expires_at_millis` included."""


class Renewable(str):
    """The time at which options expire, in milliseconds since 1970, with the way to newer ones."""

    __slots__ = ("renew",)
    renew: Renew

    def __new__(cls, millis: str, renew: Renew) -> Self:
        """Return the text with its function. Equal functions share the clients of object stores."""
        found = super().__new__(cls, millis)
        found.renew = renew
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the function too if that is possible; else only the text, without renewal."""
        try:
            pickle.dumps(self.renew)
        except Exception:  # those of any class that cannot be pickled
            return str, (str(self),)
        return Renewable, (str(self), self.renew)
