from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from pilum.encodings.options import EncodingOptions
from pilum.errors import InvalidInputError
from pilum.spark.options import Options, table_uri


def test_case_and_underscores_do_not_count() -> None:
    given = {"path": "/t", "batchsize": "7", "PARTITION_BYTES": "8", "asOf": "2026-01-02"}
    options = Options.parse(given)
    assert (options.batch_size, options.partition_bytes) == (7, 8)
    assert options.as_of == datetime(2026, 1, 2, tzinfo=UTC)


def test_options_of_the_store_are_handed_on_and_not_shown() -> None:
    options = Options.parse({"path": "s3://b/t", "storage.AWS_REGION": "x", "storage.token": "y"})
    assert options.storage_options == {"AWS_REGION": "x", "token": "y"}
    assert "token" not in repr(options)


def test_an_unknown_option_is_told_together_with_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match=r"'batchsizes'; known: path, version, .*batchSize"):
        Options.parse({"path": "/t", "batchsizes": "7"})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("version", "0"),
        ("version", " "),
        ("blobs", "yes"),
        ("schemaMode", "overwrite"),
        ("asOf", "yesterday"),
        ("columns", "a,,b"),
        ("columns", "a,a"),
        ("batchSize", "-1"),
        ("pushdown", "maybe"),
        ("nanoseconds", "round"),
        ("mode", "ignore"),
    ],
)
def test_a_senseless_value_is_refused_with_what_was_expected(key: str, text: str) -> None:
    with pytest.raises(InvalidInputError, match=f"option '{key}': expected .*, found '{text}'"):
        Options.parse({"path": "/t", key: text})


def test_version_and_time_exclude_each_other() -> None:
    with pytest.raises(InvalidInputError, match="exclude"):
        Options.parse({"path": "/t", "version": "1", "asOf": "2026-01-02"})


def test_without_a_path_the_way_out_is_told() -> None:
    with pytest.raises(InvalidInputError, match="temporary view"):
        Options.parse({})


def test_what_a_catalog_adds_is_let_pass() -> None:
    given = {"path": "/t", "provider": "pilum", "owner": "me", "location": "/t", "option.k": "v"}
    assert Options.parse(given) == Options(path="/t")


def test_locations_become_the_same_everywhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert table_uri("t") == str(tmp_path / "t")
    assert table_uri("file:/a/b") == "/a/b"
    assert table_uri("file:///a/b") == "file:///a/b"
    assert table_uri("s3://bucket/t") == "s3://bucket/t"


def test_encodings_are_asked_for_by_options() -> None:
    options = Options.parse({"path": "/t", "compression": "zstd", "compressionLevel": "9"})
    assert options.encoding == EncodingOptions(compression="zstd", compression_level=9)
    with pytest.raises(InvalidInputError, match="compression: expected lz4, zstd, fsst or none"):
        Options.parse({"path": "/t", "compression": "best"})
