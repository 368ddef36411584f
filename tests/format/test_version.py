"""Names and numbers of file versions."""

from __future__ import annotations

import pytest

from pilum.errors import InvalidInputError, UnsupportedVersionError
from pilum.format.version import DEFAULT_VERSION, FileVersion


def test_the_default_version() -> None:
    version = FileVersion.parse("2.1")
    assert (
        version is DEFAULT_VERSION is FileVersion.parse("stable") is FileVersion.from_numbers(2, 1)
    )
    assert (str(version), version.major, version.minor) == ("2.1", 2, 1)


def test_the_newest_version() -> None:
    version = FileVersion.parse("2.2")
    assert version is FileVersion.from_numbers(2, 2)
    assert (str(version), version.major, version.minor) == ("2.2", 2, 2)


@pytest.mark.parametrize("text", ["legacy", "next", "0.1", "2.0", "0.3", "2.3"])
def test_versions_that_others_know(text: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"supported: 2\.1"):
        FileVersion.parse(text)


@pytest.mark.parametrize("text", ["", "2", "2.10", "v2.1", "STABLE"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(InvalidInputError, match="unknown data storage version"):
        FileVersion.parse(text)


@pytest.mark.parametrize("numbers", [(0, 3), (2, 0), (2, 3), (3, 1)])
def test_numbers_that_are_not_read(numbers: tuple[int, int]) -> None:
    with pytest.raises(UnsupportedVersionError, match="not supported"):
        FileVersion.from_numbers(*numbers)
