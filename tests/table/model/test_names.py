"""Names of the files of a table."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.errors import CorruptFileError
from pilum.table.model.names import (
    ManifestName,
    NamingScheme,
    detached_manifest_path,
    is_detached,
    manifest_names,
    new_data_file_name,
    newest_manifest_name,
    transaction_file_name,
)


@pytest.mark.parametrize(
    ("scheme", "version", "path"),
    [
        (NamingScheme.V1, 1, "_versions/1.manifest"),
        (NamingScheme.V1, 120, "_versions/120.manifest"),
        (NamingScheme.V2, 1, "_versions/18446744073709551614.manifest"),
        (NamingScheme.V2, 3, "_versions/18446744073709551612.manifest"),
    ],
)
@pytest.mark.checklist("S2.1")
def test_manifest_names(scheme: NamingScheme, version: int, path: str) -> None:
    assert scheme.manifest_path(version) == path
    assert ManifestName.parse(path.removeprefix("_versions/")) == ManifestName(
        version, path, scheme
    )


@given(st.integers(1, 2**63 - 1))
def test_a_name_tells_its_version(version: int) -> None:
    name = NamingScheme.V2.manifest_path(version).removeprefix("_versions/")
    parsed = ManifestName.parse(name)
    assert parsed is not None
    assert parsed.version == version


@pytest.mark.parametrize(
    "name",
    [
        "latest_version_hint.json",
        ".tmp0123",
        ".tmp_1.manifest",
        "d9223372036854775816.manifest",
        "1.manifest-4d2c7449-c5ec-40c3-84a4-b75c2bdfeb34",
        "1.manifest#1",
        "99999999999999999999.manifest",
        "-1.manifest",
        "x.manifest",
        ".manifest",
    ],
)
def test_other_files_are_no_versions(name: str) -> None:
    assert ManifestName.parse(name) is None


def test_names_are_sorted_by_version() -> None:
    names = [f"{2**64 - 1 - version:020d}.manifest" for version in (2, 10, 1)]
    assert [name.version for name in manifest_names([*names, ".tmp1"], "here")] == [1, 2, 10]


def test_versions_before_one_may_be_left_out() -> None:
    names = [f"{2**64 - 1 - version:020d}.manifest" for version in (2, 10, 1, 11)]
    others = [".tmp1", "latest_version_hint.json", "x" * len(names[0])]
    for since, found in ((0, [1, 2, 10, 11]), (3, [10, 11]), (11, [11]), (12, [11])):
        listed = manifest_names([*names, *others], "here", since)
        assert [name.version for name in listed] == found
    assert len(manifest_names(["1.manifest", "2.manifest", names[1]], "here", 5)) == 3


def test_mixed_schemes_are_damage() -> None:
    with pytest.raises(CorruptFileError, match="two naming schemes"):
        manifest_names(["2.manifest", "18446744073709551614.manifest"], "here")


def test_a_migration_that_was_interrupted() -> None:
    listed = ["1.manifest", "2.manifest", "18446744073709551613.manifest"]
    names = manifest_names([*listed, "18446744073709551612.manifest"], "here")
    assert [(name.version, name.scheme.value) for name in names] == [(1, 1), (2, 2), (3, 2)]


def test_detached_versions() -> None:
    assert is_detached(1 << 63 | 8)
    assert not is_detached(8)
    assert detached_manifest_path(1 << 63 | 8) == "_versions/d9223372036854775816.manifest"


def test_data_files_have_the_names_of_the_reference() -> None:
    name = new_data_file_name()
    assert re.fullmatch(r"[01]{24}[0-9a-f]{26}\.lance", name)
    assert name != new_data_file_name()
    assert re.fullmatch(r"job-3-[01]{24}[0-9a-f]{26}\.lance", new_data_file_name("job-3"))


def test_transaction_files() -> None:
    assert transaction_file_name(0, "f0d59673") == "0-f0d59673.txn"


_FILE_NAMES = st.one_of(
    st.integers(0, 2**64 + 5).map(lambda number: f"{number:020d}.manifest"),
    st.integers(0, 300).map(lambda number: f"{number}.manifest"),
    st.sampled_from(["latest_version_hint.json", "d9223372036854775816.manifest", ".tmp1"]),
)


@given(st.lists(_FILE_NAMES, max_size=5))
def test_the_newest_is_the_last_of_all(names: list[str]) -> None:
    try:
        expected = manifest_names(names, "here")
    except CorruptFileError:
        with pytest.raises(CorruptFileError, match="two naming schemes"):
            newest_manifest_name(names, "here")
        return
    assert newest_manifest_name(names, "here") == (expected[-1] if expected else None)
