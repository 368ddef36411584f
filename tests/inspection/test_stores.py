"""Commands on tables of an object store."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import pilum
from pilum.cli.main import main


def test_commands_take_uris(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("obstore")
    folder = "memory://inspected"
    uri = f"{folder}/orders.lance"
    pilum.write_dataset(pa.table({"a": range(10)}), uri)
    for command in (
        ["ls", folder],
        ["info", uri],
        ["schema", uri],
        ["show", uri],
        ["files", uri],
        ["du", uri],
        ["stats", uri],
        ["pages", uri],
        ["versions", uri],
        ["verify", uri],
        ["tail", uri],
        ["cat", uri, "--format", "parquet", "-o", f"{folder}/orders.parquet"],
        ["convert", f"{folder}/orders.parquet", f"{folder}/copy.lance"],
        ["compact", uri, "--dry-run"],
    ):
        assert main(command) == 0, command
    capsys.readouterr()
    assert main(["ls", folder, "--json"]) == 0
    found = [(one["uri"], one["rows"]) for one in json.loads(capsys.readouterr().out)]
    assert found == [(f"{folder}/copy.lance", 10), (uri, 10)]
    file = next(iter(pilum.dataset(uri).get_fragments()[0].data_files())).path
    assert main(["pages", f"{uri}/data/{file}", "--json"]) == 0
    assert [page["column"] for page in json.loads(capsys.readouterr().out)] == ["a"]
