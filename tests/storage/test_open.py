"""What users write as a location."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pilum.errors import InvalidInputError, UnsupportedFormatError
from pilum.storage.local import LocalStore
from pilum.storage.open import open_store


@pytest.mark.parametrize(
    ("location", "root"),
    [
        ("/data/a b", "/data/a b"),
        ("/data/table/", "/data/table"),
        (Path("/data/table"), "/data/table"),
        ("file:///data/a%20b", "/data/a b"),
        ("FILE://localhost/data", "/data"),
        ("relative", os.path.abspath("relative")),
        ("~/table", os.path.expanduser("~/table")),
        ("a:b", os.path.abspath("a:b")),
    ],
)
def test_local_locations(location: str | Path, root: str) -> None:
    assert open_store(location) == LocalStore(root)


@pytest.mark.parametrize("scheme", ["hdfs", "oss"])
def test_other_schemes_are_named(scheme: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=f"no store for {scheme}://"):
        open_store(f"{scheme}://bucket/table")


@pytest.mark.parametrize("location", ["", "a\0b", "file://host/data", "file://data"])
def test_malformed_locations(location: str) -> None:
    with pytest.raises(InvalidInputError):
        open_store(location)


def test_waiting_for_the_device_is_an_option() -> None:
    assert open_store("/data", {"sync": "False"}) == LocalStore("/data", sync=False)
    with pytest.raises(InvalidInputError, match="sync"):
        open_store("/data", {"sync": "maybe"})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["mmap", "Mmap", "MMAP", "sync", "SYNC"])
def test_the_case_of_local_options_does_not_matter(name: str) -> None:
    assert open_store("/data", {name: "False"}).options == {name.lower(): "false"}
    with pytest.raises(InvalidInputError, match="expected true or false"):
        open_store("/data", {name: "perhaps"})
