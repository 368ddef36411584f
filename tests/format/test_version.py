"""Names and numbers of file versions."""

from __future__ import annotations

import pytest

from pilum.errors import InvalidInputError, UnsupportedVersionError
from pilum.format.version import DEFAULT_VERSION, FileVersion


@pytest.mark.checklist("S0.3")
def test_the_default_version() -> None:
    version = FileVersion.parse("stable")
    assert version is DEFAULT_VERSION is FileVersion.from_numbers(2, 2)
    assert (str(version), version.major, version.minor) == ("2.2", 2, 2)


@pytest.mark.checklist("S0.3")
def test_the_newest_version() -> None:
    version = FileVersion.parse("2.2")
    assert version is FileVersion.from_numbers(2, 2)
    assert (str(version), version.major, version.minor) == ("2.2", 2, 2)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("legacy", FileVersion.LEGACY),
        ("0.1", FileVersion.LEGACY),
        ("2.0", FileVersion.V2_0),
        ("0.3", FileVersion.V2_0),
        ("stable", FileVersion.V2_2),
    ],
)
@pytest.mark.checklist("S0.3")
def test_other_names(text: str, version: FileVersion) -> None:
    assert FileVersion.parse(text) is version


@pytest.mark.checklist("S0.3")
@pytest.mark.parametrize("text", ["2.3", "next"])
def test_a_version_that_others_know(text: str) -> None:
    with pytest.raises(
        UnsupportedVersionError, match=r"read only: 2\.3 is not final.*0\.1, 2\.0, 2\.1, 2\.2, "
    ):
        FileVersion.parse(text)


@pytest.mark.parametrize("text", ["", "2", "2.10", "v2.1", "STABLE"])
@pytest.mark.checklist("S0.3")
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(InvalidInputError, match="unknown data storage version"):
        FileVersion.parse(text)


@pytest.mark.parametrize(
    ("numbers", "version"),
    [
        ((0, 0), FileVersion.LEGACY),
        ((0, 2), FileVersion.LEGACY),
        ((0, 3), FileVersion.V2_0),
        ((2, 0), FileVersion.V2_0),
    ],
)
@pytest.mark.checklist("S0.3")
def test_numbers_of_old_versions(numbers: tuple[int, int], version: FileVersion) -> None:
    assert FileVersion.from_numbers(*numbers) is version
    assert FileVersion.from_numbers(*version.footer_numbers) is version


@pytest.mark.parametrize("numbers", [(0, 4), (1, 0), (2, 4), (3, 1)])
def test_numbers_that_are_not_read(numbers: tuple[int, int]) -> None:
    with pytest.raises(UnsupportedVersionError, match="not supported"):
        FileVersion.from_numbers(*numbers)
