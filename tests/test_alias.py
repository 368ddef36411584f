"""`import lance` gets this package where it is requested, and nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def run(code: str, **environment: str) -> Any:
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.splitlines()[-1])


SAME = """
import json, pilum
{install}
import lance, lance.file, lance.indices.ivf
from lance.dataset import LanceDataset
from lance.lance import CompactionMetrics
print(json.dumps([
    lance is pilum, lance.file is pilum.file, lance.indices.ivf is pilum.indices.ivf,
    LanceDataset is pilum.LanceDataset, callable(lance.dataset), lance.file.__spec__.name,
]))
"""


def test_submodules_are_the_same_objects() -> None:
    found = run(SAME.format(install="pilum.install_as_lance(); pilum.install_as_lance()"))
    assert found == [True] * 5 + ["pilum.file"]


def test_the_variable_installs_it() -> None:
    assert run(SAME.format(install=""), PILUM_AS_LANCE="1") == [True] * 5 + ["pilum.file"]


@pytest.mark.parametrize("value", ["", "0"])
def test_without_the_variable_nothing_changes(value: str) -> None:
    code = "import json, sys, pilum; print(json.dumps('lance' in sys.modules))"
    assert run(code, PILUM_AS_LANCE=value) is False


def test_what_is_missing_is_reported_as_missing() -> None:
    code = """
import json, pilum
pilum.install_as_lance()
try:
    import lance.no_such_module
except ModuleNotFoundError as error:
    print(json.dumps(error.name))
"""
    assert run(code) == "lance.no_such_module"


def test_another_package_of_that_name_is_not_replaced() -> None:
    code = """
import json, sys, types
sys.modules["lance"] = types.ModuleType("lance")
import pilum
try:
    pilum.install_as_lance()
except pilum.errors.InvalidInputError as error:
    print(json.dumps(str(error)))
"""
    assert "before the first `import lance`" in run(code, PILUM_AS_LANCE="1")


def test_the_line_in_the_wheel_imports_the_package_on_request(tmp_path: Path) -> None:
    (line,) = (ROOT / "wheel" / "platlib" / "pilum_as_lance.pth").read_text().splitlines()
    code = f"import json, sys; exec({line!r}); print(json.dumps('lance' in sys.modules))"
    assert run(code, PILUM_AS_LANCE="1") is True
    assert run(code, PILUM_AS_LANCE="0") is False
