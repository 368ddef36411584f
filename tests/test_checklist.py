"""What the format asks for is held by tests, and docs/checklist.md says by which."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def checklist() -> ModuleType:
    spec: Any = importlib.util.spec_from_file_location("checklist", ROOT / "scripts/checklist.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(checklist: ModuleType) -> None:
    expected = checklist.page_of(checklist.holders())
    assert checklist.PAGE.read_text() == expected, "run: make checklist"


def test_tests_name_lines_that_there_are(checklist: ModuleType) -> None:
    assert set(checklist.holders()) - set(checklist.LINES) == set()


def test_a_mark_a_docstring_and_a_comment_count(checklist: ModuleType, tmp_path: Path) -> None:
    lines = [f"S{part}" for part in ("4.1", "4.2", "4.3", "4.4", "4.5")]
    source = f'''"""Of the module: {lines[0]}."""
import pytest

@pytest.mark.checklist("{lines[1]}", "{lines[2]}")
def test_one(): ...

# {lines[3]}
def test_two():
    """{lines[4]} and {lines[2]}"""

def helper():
    """{lines[0]}"""
'''
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "test_x.py").write_text(source)
    found = checklist.holders(tmp_path)
    assert found == {
        lines[0]: ["below/test_x.py"],
        lines[1]: ["below/test_x.py::test_one"],
        lines[2]: ["below/test_x.py::test_one", "below/test_x.py::test_two"],
        lines[3]: ["below/test_x.py::test_two"],
        lines[4]: ["below/test_x.py::test_two"],
    }
