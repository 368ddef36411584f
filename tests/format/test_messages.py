"""Parsing messages: damage and unknown members, with each implementation of protobuf."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
from google.protobuf.internal import api_implementation
from pilum.errors import CorruptFileError
from pilum.format.messages import has_unknown_members, parse_message
from pilum.format.pb import file_pb2

assert api_implementation.Type() in {implementations!r}, api_implementation.Type()
damaged = bytes([0x12, 2, 0xFF, 0xFE])  # a name of a field that is not UTF-8
truncated = bytes([0x12, 9, 0x61])
for data in damaged, truncated:
    try:
        parse_message(file_pb2.Field, data, "page 3", what="field")
    except CorruptFileError as error:
        assert str(error).startswith("field: ") and str(error).endswith("page 3"), str(error)
    else:
        raise AssertionError("no error")
known = parse_message(file_pb2.Field, bytes([0x12, 1, 0x61]))
assert known.name == "a" and not has_unknown_members(known)
newer = parse_message(file_pb2.Field, bytes.fromhex("120161d80601"))  # field 107 = 1
for _ in range(2):
    assert has_unknown_members(newer)
    newer.ByteSize()
"""


@pytest.mark.parametrize(
    ("setting", "implementations"), [("python", ["python"]), ("upb", ["upb", "python"])]
)
def test_damage_and_unknown_members_are_noticed_with_each_implementation(
    setting: str, implementations: list[str]
) -> None:
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": setting}
    command = [sys.executable, "-c", CODE.format(implementations=implementations)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
