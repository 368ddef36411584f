"""What users write as storage options, and as locations of object stores."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from guard import GUARD_SECONDS

from pilum.errors import InvalidInputError
from pilum.storage.cloud import MEMORY_SCHEMES, SERVICES, open_cloud
from pilum.storage.cloud_client import translate_errors
from pilum.storage.cloud_options import AZURE, GCS, S3, Service, find_profile, settings_of
from pilum.storage.open import CLOUD_SCHEMES, open_store

obstore = pytest.importorskip("obstore", reason="needs obstore: pip install 'pilum[cloud]'")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.lower().startswith((*S3.prefixes, *GCS.prefixes, *AZURE.prefixes)):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def config(service: Service, **options: object) -> dict[str, str]:
    return dict(settings_of(service, options).config)


@pytest.mark.parametrize("key", ["aws_region", "AWS_REGION", "region", "Region"])
def test_case_and_prefix_do_not_count(key: str) -> None:
    assert config(S3, **{key: "eu-west-1"}) == {"region": "eu-west-1"}


def test_of_two_names_the_one_with_the_prefix_counts() -> None:
    assert config(S3, aws_region="a", region="b") == {"region": "a"}
    assert config(S3, region="b", aws_region="a") == {"region": "a"}


@pytest.mark.parametrize(
    ("service", "key", "name"),
    [
        (S3, "aws_session_token", "session_token"),
        (S3, "token", "session_token"),
        (GCS, "google_service_account", "service_account"),
        (GCS, "google_storage_token", "bearer_token"),
        (AZURE, "azure_storage_account_name", "account_name"),
        (AZURE, "azure_storage_sas_token", "sas_key"),
        (AZURE, "azure_client_id", "client_id"),
    ],
)
def test_names_of_the_services(service: Service, key: str, name: str) -> None:
    assert config(service, **{key: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    ("service", "build"),
    [
        (S3, lambda key: obstore.store.S3Store("b", config={f"aws_{key}": "1"})),
        (GCS, lambda key: obstore.store.GCSStore("b", config={key: "1"})),
        (AZURE, lambda key: obstore.store.AzureStore("b", account_name="a", config={key: "1"})),
    ],
)
def test_the_client_knows_every_name(service: Service, build: object) -> None:
    assert callable(build)
    for name in service.names - {"account_name"}:
        try:
            build(name)
        except obstore.exceptions.UnknownConfigurationKeyError as error:
            raise AssertionError(name) from error
        except Exception:
            pass


def test_environment_variables_do_for_what_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "from the environment")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://elsewhere")
    monkeypatch.setenv("ALLOW_HTTP", "true")
    monkeypatch.setenv("TOKEN", "of something else")
    settings = settings_of(S3, {"endpoint": "https://here"})
    assert dict(settings.config) == {
        "region": "from the environment",
        "endpoint": "https://here",
        "endpoint_url_s3": "https://here",
    }
    assert dict(settings.client) == {"allow_http": "true"}
    assert config(S3, region="said")["region"] == "said"


def test_settings_of_the_client() -> None:
    options = {"timeout": "60s", "client_max_retries": "2", "CLIENT_RETRY_TIMEOUT": 7}
    settings = settings_of(
        S3, {**options, "endpoint": "http://127.0.0.1:1", "skip_signature": True}
    )
    assert dict(settings.client) == {"timeout": "60s", "allow_http": "true"}
    assert (settings.max_retries, settings.retry_seconds) == (2, 7)
    assert dict(settings.config)["skip_signature"] == "true"
    assert dict(settings_of(S3, {"request_timeout": "5s"}).client) == {"timeout": "5s"}


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="client_max_retries"):
        settings_of(S3, {"client_max_retries": "many"})
    with pytest.raises(InvalidInputError, match=r"'region'.*found list"):
        settings_of(S3, {"region": ["eu-west-1"]})


def test_a_name_that_nobody_knows_is_warned_about_and_those_of_others_are_not() -> None:
    with pytest.warns(UserWarning, match=r"'aws_regoin'.*did you mean 'aws_region'"):
        settings_of(S3, {"aws_regoin": "x"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings_of(S3, {"azure_storage_account_key": "x", "bucket": "y", "sync": "false"})


def test_secrets_are_not_shown() -> None:
    options = {"aws_access_key_id": "k", "aws_secret_access_key": "hush", "aws_region": "r"}
    store = open_cloud("s3://bucket/table", options)
    assert "hush" not in repr(store) + repr(store.bucket) + repr(settings_of(S3, options))
    with pytest.raises(OSError, match="table/x") as caught:
        open_cloud(
            "az://container/table",
            {
                "account_name": "a",
                "sas_token": "sv=1&sig=hush",
                "endpoint": "http://127.0.0.1:1",
                "client_max_retries": "0",
            },
        ).read("x")
    assert "hush" not in str(caught.value)


def test_a_wrong_region_is_told_with_the_option_that_mends_it() -> None:
    error = obstore.exceptions.GenericError("this indicates an incorrectly configured region")
    with pytest.raises(OSError, match=r"s3://b/x: .* \"aws_region\""), translate_errors("s3://b/x"):
        raise error


def test_what_came_from_the_environment_does_not_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    store = open_store("s3://bucket/table", {"aws_access_key_id": "k", "region": "r"})
    assert b"hush" not in pickle.dumps(store)


def test_keys_of_a_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert find_profile() is None
    (tmp_path / "config").write_text(
        "[default]\nregion = eu-west-1\n[profile work]\nsso_session = x\nregion = r\n"
        "[profile role]\nrole_arn = x\nsource_profile = none\n"
    )
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = k\naws_secret_access_key = hush %(x)s\n"
    )
    profile = find_profile()
    assert profile is not None
    assert profile.config == {
        "region": "eu-west-1",
        "access_key_id": "k",
        "secret_access_key": "hush %(x)s",
    }
    store = open_cloud("s3://bucket/table", {"endpoint": "http://127.0.0.1:1"})
    assert store.bucket.client.config["access_key_id"] == "k"
    assert store.bucket.client.config["region"] == "eu-west-1"
    assert "hush %(x)s" in store.bucket.secrets
    assert "hush" not in repr(store) + repr(profile)
    own = open_cloud("s3://bucket/table", {"access_key_id": "own", "secret_access_key": "s"})
    assert own.bucket.client.config["access_key_id"] == "own"
    monkeypatch.setenv("AWS_PROFILE", "missing")
    with pytest.raises(InvalidInputError, match="no profile 'missing'"):
        open_cloud("s3://bucket/table")
    (tmp_path / "credentials").write_text("hush\n")
    with pytest.raises(InvalidInputError, match=r"credentials: MissingSectionHeaderError$"):
        open_cloud("s3://bucket/table")


def test_a_profile_may_name_a_program_that_has_the_keys(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("boto3")
    answer = '{"Version": 1, "AccessKeyId": "k", "SecretAccessKey": "s"}'
    (tmp_path / "answer").write_text(answer)
    (tmp_path / "config").write_text(
        f"[profile work]\nregion = r\ncredential_process = cat {tmp_path / 'answer'}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "work")
    profile = find_profile()
    assert profile is not None
    assert profile.provider_name == "work"
    store = open_cloud("s3://bucket/table")
    assert store.bucket.client.credential_provider()["access_key_id"] == "k"
    assert open_cloud("s3://bucket/other").bucket is store.bucket


@pytest.mark.parametrize(
    ("location", "kind", "root"),
    [
        ("s3://bucket/a/b", "S3Store", "a/b"),
        ("s3a://bucket/a%20b/", "S3Store", "a b"),
        ("gs://bucket", "GCSStore", ""),
        ("az://container/a", "AzureStore", "a"),
        ("abfss://container@account.dfs.core.windows.net/a", "AzureStore", "a"),
        ("memory://x/y", "MemoryStore", "x/y"),
    ],
)
def test_locations(location: str, kind: str, root: str) -> None:
    options = {"account_name": "a", "google_skip_signature": "true", "region": "r"}
    store = open_cloud(location, options)
    assert type(store.bucket.client).__name__ == kind
    assert store.root == root
    again = open_cloud(store.uri, store.options)
    assert (again.uri, again.root) == (store.uri, store.root)
    assert again.bucket is store.bucket


@pytest.mark.parametrize(
    "location", ["s3://", "s3:///a", "s3://bucket/a//b", "s3://bucket/a/../b", "s3://bucket/a?b=c"]
)
def test_malformed_locations(location: str) -> None:
    with pytest.raises(InvalidInputError):
        open_cloud(location)


def test_one_location_with_other_options_is_another_store() -> None:
    options = {"region": "r", "access_key_id": "k", "secret_access_key": "s"}
    here = open_cloud("s3://bucket/table", {**options, "endpoint": "http://127.0.0.1:1"})
    there = open_cloud("s3://bucket/table", {**options, "endpoint": "http://127.0.0.1:2"})
    again = open_cloud("s3://bucket/table", here.options)
    assert here.identity == again.identity != there.identity


def test_schemes_are_known_without_their_modules() -> None:
    assert SERVICES.keys() | MEMORY_SCHEMES == CLOUD_SCHEMES


def test_directory_buckets_list_in_no_order() -> None:
    assert not open_cloud("s3://name--use1-az4--x-s3/t", {"region": "r"}).lists_in_order
    assert open_cloud("s3://name/t", {"region": "r"}).lists_in_order


def test_a_process_that_was_forked_off_is_told_so() -> None:
    script = """if True:
        import os
        from pilum.storage.open import CLOUD_SCHEMES, open_store
        open_store("memory://x").put("x", b"")
        if os.fork() == 0:
            try:
                open_store("s3://bucket/t", {"region": "r"}).read("x")
            except ValueError as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
    """
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=GUARD_SECONDS
    )
    assert b'start processes with "spawn"' in done.stdout


def test_without_the_client_the_way_out_is_told() -> None:
    script = """if True:
        import sys
        sys.modules["obstore"] = None
        import pilum
        assert not any(name.startswith("obstore.") for name in sys.modules)
        try:
            pilum.dataset("s3://bucket/t")
        except pilum.errors.MissingDependencyError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=GUARD_SECONDS
    )
    assert b"pip install 'pilum[cloud]'" in done.stdout
