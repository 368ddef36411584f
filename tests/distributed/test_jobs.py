from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from distributed.helpers import SCHEMA, latest, rows, write

import pilum
from pilum.commit import ExternalManifests
from pilum.distributed import (
    WriteJob,
    commit_parts,
    start_job,
    write_part,
)
from pilum.errors import (
    DatasetAlreadyExistsError,
    InvalidInputError,
    SchemaMismatchError,
)
from pilum.format.version import FileVersion
from pilum.table.model.names import NamingScheme
from pilum.table.versions.commit_handler import handler_of, open_table
from pilum.table.write.forms import plain_schema


def test_modes_are_told_never_guessed(uri: str) -> None:
    assert start_job(uri, SCHEMA, "append").mode == "create"
    write(uri, "create", range(1))
    assert start_job(uri, SCHEMA, "append").mode == "append"
    with pytest.raises(DatasetAlreadyExistsError):
        start_job(uri, SCHEMA, "create")


def test_an_append_keeps_the_schema_of_the_table(uri: str) -> None:
    write(uri, "create", range(1))
    other = pa.schema([("id", pa.int8())])
    job = start_job(uri, other, "append")
    assert job.schema.arrow == SCHEMA
    with pytest.raises((SchemaMismatchError, InvalidInputError)):
        write_part(job, [pa.record_batch({"id": [1]}, schema=other)], partition=0)
    assert isinstance(job, WriteJob)


def test_the_file_version_is_kept_unless_another_is_asked_for(uri: str) -> None:
    newer = FileVersion.V2_2
    job = start_job(uri, SCHEMA, "create", version=newer)
    assert job.options.version is newer
    commit_parts(job, [write_part(job, rows(1, 2), partition=0)])
    assert start_job(uri, SCHEMA, "append").options.version is newer
    assert start_job(uri, SCHEMA, "overwrite").options.version is newer
    assert start_job(uri, SCHEMA, "overwrite", version=FileVersion.V2_1).options.version is (
        FileVersion.V2_1
    )
    with pytest.raises(InvalidInputError, match=r"files of version 2\.2; 2\.1 cannot"):
        start_job(uri, SCHEMA, "append", version=FileVersion.V2_1)


def test_an_append_may_bring_columns(uri: str) -> None:
    write(uri, "create", range(2))
    more = pa.schema([("extra", pa.float64()), ("id", pa.int64())])
    batch = pa.record_batch([[0.5], [2]], schema=more)
    refused = start_job(uri, more, "append")
    with pytest.raises(SchemaMismatchError, match="no column 'extra'"):
        write_part(refused, [batch], partition=0)
    job = start_job(uri, more, "append", schema_mode="merge")
    message = write_part(job, [batch], partition=0)
    write(uri, "append", range(3, 4))  # at the same time; it must not be lost
    assert commit_parts(job, [message]) == commit_parts(job, [message]) == 3
    assert pilum.dataset(uri).to_table().to_pydict() == {
        "id": [0, 1, 3, 2],
        "text": ["t0", "t1", "t3", None],
        "extra": [None, None, None, 0.5],
    }


@pytest.mark.parametrize("version", [FileVersion.V2_1, FileVersion.V2_2])
def test_rows_may_be_given_in_their_plain_form(uri: str, version: FileVersion) -> None:
    """Binary for blobs, text for JSON: all that Spark has."""
    schema = pa.schema(
        [
            pa.field("doc", pa.string(), metadata={"ARROW:extension:name": "arrow.json"}),
            pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    batch = pa.record_batch([['{"a": 1}', None], [b"payload", None]], schema=schema)
    job = start_job(uri, schema, "create", version=version)
    commit_parts(job, [write_part(job, [batch], partition=0)])
    job = start_job(uri, plain_schema(latest(uri).schema), "append")
    commit_parts(job, [write_part(job, [batch], partition=0)])
    dataset = pilum.dataset(uri)
    assert dataset.schema.field("doc").type == pa.json_()
    table = dataset.to_table(blob_handling="all_binary")
    assert table["blob"].to_pylist() == [b"payload", None] * 2
    assert table["doc"].to_pylist() == ['{"a":1}', None] * 2


def test_a_new_table_may_have_stable_row_ids(uri: str) -> None:
    job = start_job(uri, SCHEMA, "create", stable_row_ids=True)
    commit_parts(job, [write_part(job, rows(1), partition=0)])
    assert latest(uri).has_stable_row_ids


def test_a_job_and_its_parts_know_an_external_manifest_store(uri: str, tmp_path: Path) -> None:
    options = {"manifest_store": f"sqlite://{tmp_path}/entries.db"}
    for value in (1, 2):
        job = start_job(uri, SCHEMA, "append", storage_options=options)
        commit_parts(pickle.loads(pickle.dumps(job)), [write_part(job, rows(value), partition=0)])
    handler = handler_of(open_table(uri, options))
    assert isinstance(handler, ExternalManifests)
    assert handler.entries.get_latest(uri) == (2, NamingScheme.V2.manifest_path(2))
