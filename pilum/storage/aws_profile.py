"""AWS credentials in files: the profiles that the AWS command line keeps.

    ~/.aws/credentials   [name]            aws_access_key_id, aws_secret_access_key, …
    ~/.aws/config        [profile name]    region, sso_session, role_arn, …

Keys that are in these files are read here. For profiles that get their keys elsewhere (from single
sign-on, a role or a process), boto3 is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from configparser import Error, RawConfigParser
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from pilum.errors import InvalidInputError, MissingDependencyError

__all__ = ["Profile", "find_profile"]

_DEFAULT = "default"
_STATIC = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_ELSEWHERE = (
    "credential_process",
    "login_session",
    "role_arn",
    "sso_session",
    "sso_start_url",
    "web_identity_token_file",
)


@dataclass(frozen=True, slots=True)
class Profile:
    """The settings of one profile.

    Attributes:
        config: Settings of the client, by name without prefix.
        provider: Gets keys that are not in the files.
    """

    config: dict[str, str] = field(default_factory=dict, repr=False)
    provider: Callable[[], Any] | None = None


def find_profile() -> Profile | None:
    """Return the profile that `AWS_PROFILE` names, or the default one; None if there is none.

    Raises:
        InvalidInputError: If the named profile does not exist, or a file is not a valid AWS file.
        MissingDependencyError: If the keys of the profile are elsewhere and boto3 is not installed.
    """
    named = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    found = _section(named or _DEFAULT)
    if not found:
        if named:
            raise InvalidInputError(f"AWS_PROFILE: there is no profile {named!r}")
        return None
    config = {"region": found["region"]} if "region" in found else {}
    if _STATIC[0] in found:
        keys = {name.removeprefix("aws_"): found[name] for name in _STATIC if name in found}
        return Profile(config | keys)
    if any(name in found for name in _ELSEWHERE):
        return Profile(config, _provider(named or _DEFAULT))
    return Profile(config)


def _section(name: str) -> dict[str, str]:
    config = _parsed("AWS_CONFIG_FILE", "~/.aws/config")
    keys = _parsed("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
    long_name = name if name == _DEFAULT else f"profile {name}"
    return {**config.get(long_name, {}), **keys.get(name, {})}


def _parsed(variable: str, default: str) -> dict[str, dict[str, str]]:
    path = os.path.expanduser(os.environ.get(variable) or default)
    parser = RawConfigParser(default_section="")
    try:
        parser.read(path, encoding="utf-8")
    except (Error, UnicodeDecodeError) as error:
        # The error text may contain a line of the file, and a line may contain a key.
        raise InvalidInputError(f"{path}: {type(error).__name__}") from None
    return {section: dict(parser.items(section)) for section in parser.sections()}


@cache
def _provider(name: str) -> Callable[[], Any]:
    try:
        boto3, providers = import_module("boto3"), import_module("obstore.auth.boto3")
    except ImportError as error:
        raise MissingDependencyError(
            f"the AWS profile {name!r} gets its keys elsewhere, for which boto3 is needed: "
            "pip install boto3"
        ) from error
    provider: Callable[[], Any] = providers.Boto3CredentialProvider(
        boto3.Session(profile_name=name)
    )
    return provider
