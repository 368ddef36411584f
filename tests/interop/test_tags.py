"""Tags of one library, listed, opened, moved and deleted by the other (S2.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

ORDERS = pytest.mark.parametrize(
    ("first", "second"), [(pilum, lance), (lance, pilum)], ids=["pilum first", "lance first"]
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    for number in range(3):
        writer = (pilum, lance)[number % 2]
        table = pa.table({"a": [number]})
        writer.write_dataset(table, path, mode="append", data_storage_version="2.1")
    return path


def assert_same_tags(path: str) -> None:
    ours, theirs = pilum.dataset(path).tags, lance.dataset(path).tags
    assert ours.list() == theirs.list()
    for order in (None, "asc", "desc"):
        assert ours.list_ordered(order) == theirs.list_ordered(order)
    for name in ours.list():
        assert ours.get_version(name) == theirs.get_version(name)
        mine, other = pilum.dataset(path, version=name), lance.dataset(path, version=name)
        assert mine.version == other.version == lance.dataset(path).checkout_version(name).version
        assert mine.to_table().equals(other.to_table())


@ORDERS
def test_both_manage_the_same_tags(path: str, first: Any, second: Any) -> None:
    one, two = first.dataset(path), second.dataset(path)
    one.tags.create("a", 1)
    two.tags.create("b", "a")
    one.tags.create("c-1.0_x", (None, None))
    two.checkout_version(2).tags.create("d")
    assert_same_tags(path)
    two.tags.replace_metadata("a", {"who": "second", "ß": "💧"})
    one.tags.update("a", 3)
    one.tags.replace_metadata("b", {"who": "first"})
    two.tags.update("b")
    assert_same_tags(path)
    one.tags.delete("d")
    two.tags.delete("c-1.0_x")
    assert_same_tags(path)
    assert {name: tag["version"] for name, tag in one.tags.list().items()} == {"a": 3, "b": 3}
    with pytest.raises(ValueError, match="already"):
        two.tags.create("a", 1)
    two.checkout_version("a").restore()
    assert_same_tags(path)


def test_the_same_bytes(path: str) -> None:
    """But for the moments, of which both write nine digits."""
    for library, name in ((pilum, "ours"), (lance, "theirs")):
        library.dataset(path).tags.create(name, 2)
        library.dataset(path).tags.update(name, 1)
        library.dataset(path).tags.replace_metadata(name, {"k": "ß\n"})
    texts = [Path(path, "_refs/tags", f"{name}.json").read_text() for name in ("ours", "theirs")]
    mine, other = map(json.loads, texts)
    assert list(mine) == list(other)
    assert len(mine["createdAt"]) == len("2026-11-20T16:13:02.444069270Z")
    for moment in ("createdAt", "updatedAt"):
        texts[0] = texts[0].replace(mine[moment], moment)
        texts[1] = texts[1].replace(other[moment], moment)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", ["", ".a", "a.", "a..b", "a.lock", "a/b", "a b", "a\n"])
def test_neither_takes_bad_names(path: str, name: str) -> None:
    for library in (pilum, lance):
        with pytest.raises((OSError, ValueError)):
            library.dataset(path).tags.create(name, 1)
    assert not Path(path, "_refs").exists()
