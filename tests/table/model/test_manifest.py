"""What a manifest is taken to say where old or newer writers say it differently."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from stored_manifests import read_manifest

from pilum.errors import UnsupportedFeatureError
from pilum.format.fields import Field, FieldId
from pilum.format.pb import file_pb2, table_pb2
from pilum.format.schema import Schema
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import THIS_WRITER, Manifest


def message(**members: Any) -> table_pb2.Manifest:
    whole = Manifest(Schema((Field("a", FieldId(0), "int64"),)), Fragments(), version=1).to_proto()
    whole.MergeFrom(table_pb2.Manifest(**members))
    return whole


@pytest.mark.parametrize(
    ("numbers", "flags", "expected"),
    [
        ((0, 0), 0, "0.1"),
        ((0, 2), 0, "0.1"),
        ((0, 3), 4, "2.0"),
        ((2, 0), 4, "2.0"),
        ((2, 1), 4, "2.1"),
        (None, 4, "2.1"),
        (None, 0, "0.1"),
    ],
)
@pytest.mark.checklist("S0.3")
def test_a_missing_data_format_is_inferred(
    numbers: tuple[int, int] | None, flags: int, expected: str
) -> None:
    whole = message(writer_feature_flags=flags)
    whole.ClearField("data_format")
    if numbers:
        whole.fragments.add().files.add(
            file_major_version=numbers[0], file_minor_version=numbers[1]
        )
    assert read_manifest(whole).data_format == expected


@pytest.mark.parametrize(
    "members",
    [
        {"clustering": b"x"},
        {"max_clustering_id": 0},
        {"fragments": [table_pb2.DataFragment(clustering_id=2)]},
        {
            "fields": [
                file_pb2.Field(name="b", id=1, parent_id=-1, unenforced_clustering_key_position=1)
            ]
        },
    ],
)
def test_members_that_would_be_lost_are_noticed(members: dict[str, Any]) -> None:
    assert read_manifest(message(**members)).is_lossy


@pytest.mark.parametrize("where", ["manifest", "fragment", "file", "field"])
def test_unknown_members_are_noticed_at_any_depth(where: str) -> None:
    unknown = bytes.fromhex("d80601")  # field 107 = 1
    file = table_pb2.DataFile(path="x").SerializeToString() + unknown * (where == "file")
    fragment = _member(2, file) + unknown * (where == "fragment")
    field = file_pb2.Field(name="a", parent_id=-1).SerializeToString() + unknown * (
        where == "field"
    )
    data = _member(1, field) + _member(2, fragment) + unknown * (where == "manifest")
    assert read_manifest(table_pb2.Manifest.FromString(data)).is_lossy


def _member(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def test_the_dead_storage_class_of_old_fields_is_no_loss() -> None:
    field = file_pb2.Field(name="b", id=1, parent_id=-1, logical_type="int32")
    data = field.SerializeToString() + b"\x5a\x07default"
    whole = message(fields=[file_pb2.Field.FromString(data)])
    assert not read_manifest(whole).is_lossy


def test_fragments_in_a_tree_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="tree"):
        read_manifest(message(fragment_tree=b""))


@pytest.mark.checklist("S2.2")
def test_flags_follow_the_content() -> None:
    covering = table_pb2.IndexSection(indices=[table_pb2.IndexMetadata(covering_fields=[1])])
    base = Manifest(Schema(()), Fragments(), version=1, reader_flags=256, writer_flags=256 | 4 | 8)
    assert (base.with_flags().reader_flags, base.with_flags().writer_flags) == (256, 256)
    full = Manifest(
        Schema(()), Fragments(), 1, config={"k": "v"}, index_section=covering.SerializeToString()
    )
    assert (full.with_flags().reader_flags, full.with_flags().writer_flags) == (128, 128 | 8)


def test_the_writer_is_named_with_the_version_of_the_package() -> None:
    writer = Manifest(Schema(()), Fragments(), version=1).to_proto().writer_version
    assert (writer.library, writer.version) == THIS_WRITER
    workspace = tomllib.loads(Path(__file__).parents[3].joinpath("rust/Cargo.toml").read_text())
    assert THIS_WRITER.version == workspace["workspace"]["package"]["version"]
