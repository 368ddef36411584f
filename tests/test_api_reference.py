"""docs/api.md tells of every public name, and of nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pilum
import pilum.file

ROOT = Path(__file__).parents[1]


def test_the_page_is_up_to_date() -> None:
    spec: Any = importlib.util.spec_from_file_location("api", ROOT / "scripts/api-reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.page()
    assert module.PAGE.read_text() == page, "run: make api"
    for name in pilum.__all__:
        if name.startswith("_") or isinstance(getattr(pilum, name), ModuleType):
            continue
        assert f"\n### pilum.{name}\n" in page
    for name in pilum.file.__all__:
        assert f"\n### pilum.file.{name}\n" in page
