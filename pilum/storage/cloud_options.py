"""The settings of object stores: from storage options, the environment and AWS profiles.

    {"AWS_REGION": "eu-west-1"}     case does not matter
    {"region": "eu-west-1"}         nor does the prefix of the service
    AWS_REGION=eu-west-1            environment variables apply where no option is given
    {"timeout": "60s"}              settings of the client are the same for every service

Names that belong to other services are ignored, so that one dictionary can serve several stores. An
unknown name causes a warning. Source: docs/guide/object-stores.md, "Options".

Without credentials in the options or the environment, S3 uses a profile of the AWS command line:

    ~/.aws/credentials   [name]            aws_access_key_id, aws_secret_access_key, …
    ~/.aws/config        [profile name]    region, sso_session, role_arn, …

Keys that are in these files are read here. For profiles that get their keys elsewhere (from single
sign-on, a role or a process), boto3 is used.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from configparser import Error, RawConfigParser
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from pilum.errors import InvalidInputError, MissingDependencyError

__all__ = ["AZURE", "GCS", "S3", "Profile", "Service", "Settings", "find_profile", "settings_of"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CLIENT_NAMES = _words(
    """
    allow_http allow_invalid_certificates connect_timeout default_content_type http1_only
    http2_keep_alive_interval http2_keep_alive_timeout http2_keep_alive_while_idle http2_only
    pool_idle_timeout pool_max_idle_per_host proxy_ca_certificate proxy_excludes proxy_url
    randomize_addresses read_timeout root_certificate timeout user_agent
    """
)
_CLIENT_ALIASES = {"request_timeout": "timeout"}
_MAX_RETRIES = "client_max_retries"
_RETRY_SECONDS = "client_retry_timeout"
_DEFAULT_RETRIES = 6
_DEFAULT_RETRY_SECONDS = 180
_WITHOUT_EFFECT = _words(
    """
    aws_provider_scheme bucket bucket_name container container_name download_retry_count
    dynamodb_endpoint expires_at_millis manifest_store refresh_offset_millis sync use_opendal
    """
)
"""Known options that are ignored: of other stores, given by the location, or about the internals of
the reference.
"""

_DEFAULT = "default"
_STATIC = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_ELSEWHERE = _words(
    "credential_process login_session role_arn sso_session sso_start_url web_identity_token_file"
)


@dataclass(frozen=True, slots=True)
class Service:
    """The names of the settings of one kind of object store.

    Attributes:
        name: The name of the service, for messages.
        prefixes: Optional prefixes of a name; the first that matches is removed.
        names: Settings of the service, without prefix.
        aliases: Other names for some of them.
        secrets: Settings whose values no message may contain.
    """

    name: str
    prefixes: tuple[str, ...]
    names: frozenset[str]
    aliases: Mapping[str, str]
    secrets: frozenset[str]

    def find(self, key: str) -> str | None:
        """Return the setting that a key means; None if the key is not a setting of this service."""
        name = key.lower()
        for prefix in self.prefixes:
            if name.startswith(prefix):
                name = name.removeprefix(prefix)
                break
        name = self.aliases.get(name, _CLIENT_ALIASES.get(name, name))
        return name if name in self.names or name in _CLIENT_NAMES else None

    def all_keys(self) -> Iterable[str]:
        """Return the names as users would write them."""
        names = sorted(self.names | set(self.aliases))
        return (key for name in names for key in (name, self.prefixes[0] + name))


S3 = Service(
    "S3",
    ("aws_",),
    _words(
        """
        access_key_id checksum_algorithm conditional_put container_authorization_token_file
        container_credentials_full_uri container_credentials_relative_uri copy_if_not_exists
        default_region disable_bulk_delete disable_tagging endpoint endpoint_url_s3
        endpoint_url_sts imdsv1_fallback metadata_endpoint region request_payer role_arn
        role_session_name s3_express secret_access_key server_side_encryption session_token
        skip_signature sse_bucket_key_enabled sse_customer_key_base64 sse_kms_key_id
        unsigned_payload virtual_hosted_style_request web_identity_token_file
        """
    ),
    {"endpoint_url": "endpoint", "sts_endpoint": "endpoint_url_sts", "token": "session_token"},
    frozenset({"secret_access_key", "session_token", "sse_customer_key_base64"}),
)

GCS = Service(
    "Google Cloud Storage",
    ("google_",),
    _words(
        """
        application_credentials base_url bearer_token service_account service_account_key
        skip_signature
        """
    ),
    {
        "service_account_path": "service_account",
        "storage_token": "bearer_token",
        "endpoint": "base_url",
    },
    frozenset({"bearer_token", "service_account_key"}),
)

AZURE = Service(
    "Azure Blob Storage",
    ("azure_storage_", "azure_", "object_store_"),
    _words(
        """
        account_key account_name authority_host client_id client_secret credential_type
        disable_tagging encryption_key endpoint fabric_cluster_identifier fabric_session_token
        fabric_token_service_url fabric_workload_host federated_token_file msi_endpoint
        msi_resource_id object_id sas_key skip_signature tenant_id token use_azure_cli
        use_emulator use_fabric_endpoint
        """
    ),
    {
        "access_key": "account_key",
        "authority_id": "tenant_id",
        "bearer_token": "token",
        "identity_endpoint": "msi_endpoint",
        "master_key": "account_key",
        "sas_token": "sas_key",
    },
    _words("account_key client_secret encryption_key fabric_session_token sas_key token"),
)

_SERVICES = (S3, GCS, AZURE)


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """The settings of a client; hashable, so that equal stores share one client.

    Attributes:
        config: Settings of the service, by name without prefix.
        client: Settings of the HTTP client.
        max_retries: How often a request is repeated at most.
        retry_seconds: No retry starts later than this.
        secrets: Values that no message may contain.
    """

    config: tuple[tuple[str, str], ...]
    client: tuple[tuple[str, str], ...]
    max_retries: int
    retry_seconds: int
    secrets: frozenset[str]

    def has_any(self, names: Collection[str]) -> bool:
        """Return whether any of these settings is given."""
        return any(name in names for name, _ in self.config)

    def completed(self, service: Service, more: Mapping[str, str]) -> Settings:
        """Return a copy with further settings of the service; those already given are kept."""
        config = {**more, **dict(self.config)}
        secrets = self.secrets | {config[name] for name in service.secrets & config.keys()}
        return replace(self, config=tuple(sorted(config.items())), secrets=secrets)

    def without(self, names: Collection[str]) -> Settings:
        """Return a copy without these settings of the service."""
        kept = tuple((name, value) for name, value in self.config if name not in names)
        return replace(self, config=kept)

    def __repr__(self) -> str:
        return f"Settings({', '.join(name for name, _ in self.config)})"


def settings_of(service: Service, options: Mapping[str, Any]) -> Settings:
    """Read storage options and, for settings that they do not give, environment variables."""
    found = _from_options(service, options)
    if service is S3 and "endpoint" in found:
        # This environment variable would otherwise override the option.
        found.setdefault("endpoint_url_s3", found["endpoint"])
    for name, value in _from_environment(service).items():
        found.setdefault(name, value)
    if found.get("endpoint", "").startswith("http://"):
        found.setdefault("allow_http", "true")
    lower = {key.lower(): value for key, value in options.items()}
    return Settings(
        tuple(sorted((name, value) for name, value in found.items() if name in service.names)),
        tuple(sorted((name, value) for name, value in found.items() if name in _CLIENT_NAMES)),
        _number(lower, _MAX_RETRIES, _DEFAULT_RETRIES),
        _number(lower, _RETRY_SECONDS, _DEFAULT_RETRY_SECONDS),
        frozenset(found[name] for name in service.secrets & found.keys()),
    )


def _from_options(service: Service, options: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    # If two keys mean one setting, the one with the prefix of the service applies.
    for key in sorted(options, key=lambda key: key.lower().startswith(service.prefixes)):
        name = service.find(key)
        if name is not None:
            found[name] = _text(key, options[key])
        elif not _is_known(key):
            _warn_about(service.name, service.all_keys(), key)
    return found


def _from_environment(service: Service) -> dict[str, str]:
    found = {}
    for key, value in os.environ.items():
        name = service.find(key)
        has_prefix = key.lower().startswith(service.prefixes)
        if name is not None and (has_prefix or name in _CLIENT_NAMES) and key.isupper():
            found[name] = value
    return found


def _is_known(key: str) -> bool:
    name = key.lower()
    return (
        name in _WITHOUT_EFFECT
        or name in {_MAX_RETRIES, _RETRY_SECONDS}
        or name.partition("_")[2] in _WITHOUT_EFFECT
        or any(service.find(name) for service in _SERVICES)
    )


def warn_about_unknown(options: Mapping[str, Any], place: str, own: Iterable[str]) -> None:
    """Warn about options that no store has, for a location with only a few of its own."""
    for key in options:
        if key not in own and not _is_known(key):
            _warn_about(place, own, key)


def _warn_about(place: str, own: Iterable[str], key: str) -> None:
    known = [*own, *_CLIENT_NAMES, _MAX_RETRIES, _RETRY_SECONDS]
    close = difflib.get_close_matches(key.lower(), known, 1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    warnings.warn(
        f"storage option {key!r} is not known to {place} and has no effect{meant}",
        stacklevel=2,
    )


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int):
        return str(value)
    raise InvalidInputError(f"storage option {key!r}: expected text, found {type(value).__name__}")


def _number(options: Mapping[str, Any], key: str, default: int) -> int:
    value = str(options.get(key, default)).strip().removesuffix("s")
    if not value.isdecimal():
        raise InvalidInputError(f"storage option {key!r}: expected a number, found {value!r}")
    return int(value)


@dataclass(frozen=True, slots=True)
class Profile:
    """The settings of the client in one profile, by name without prefix.

    `provider_name` is the name for `credential_provider`, if the keys are not in the files.
    """

    config: dict[str, str] = field(default_factory=dict, repr=False)
    provider_name: str | None = None


def find_profile() -> Profile | None:
    """Return the profile that `AWS_PROFILE` names, or the default one; None if there is none.

    InvalidInputError is raised if the named one does not exist, or a file is not an AWS file.
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
        return Profile(config, named or _DEFAULT)
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


def credential_provider(name: str) -> Callable[[], Any]:
    """Return what gets the keys of a profile from outside of the files."""
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
