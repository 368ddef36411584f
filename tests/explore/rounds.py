"""One round of exploring: pytest, with a seed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["Ended", "run_round"]

_ROOT = Path(__file__).parents[2]
_COLLECTED_NONE = 5


@dataclass(frozen=True)
class Ended:
    """What came of a round.

    Attributes:
        passed: Tests that passed.
        failed: The names of those that did not.
    """

    passed: int
    failed: tuple[str, ...]


def run_round(
    seed: int,
    arguments: Sequence[str],
    logs: Path,
    failed: Collection[str],
    until: float = float("inf"),
) -> Ended | None:
    """Runs the tests that draw examples; None if there are none.

    Args:
        seed: Of everything that is drawn.
        arguments: For pytest.
        logs: Folder for the output of rounds that fail.
        failed: Tests to leave out.
        until: No test begins after it; seconds since 1970.
    """
    start = time.monotonic()
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{seed}.log"
    with TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        with log.open("w") as output:
            code = subprocess.run(
                [*_command(seed, arguments, failed), f"--junitxml={report}"],
                cwd=_ROOT,
                env=os.environ | _environment(seed, until),
                stdout=output,
                stderr=output,
            ).returncode
        if code == _COLLECTED_NONE:
            log.unlink()
            return None
        if code not in (0, 1):
            raise SystemExit(f"{log.read_text()[-5000:]}\npytest ended with {code}")
        ended = _read(report)
    seconds = time.monotonic() - start
    counts = f"{ended.passed} passed, {len(ended.failed)} failed in {seconds:.0f} s"
    print(f"seed {seed}: {counts}", flush=True)
    for test in ended.failed:
        print(f"    {test}: see {log}", flush=True)
    if not ended.failed:
        log.unlink()
    return ended


def _command(seed: int, arguments: Sequence[str], failed: Collection[str]) -> list[str]:
    return [
        *(sys.executable, "-m", "pytest", "-m", "hypothesis or seeds", "-o", "junit_family=xunit1"),
        *(
            "-n",
            "auto",
            "--dist",
            "loadfile",
            "--no-loadscope-reorder",
            f"--hypothesis-seed={seed}",
        ),
        *(f"--deselect={test}" for test in failed),
        *arguments,
    ]


def _environment(seed: int, until: float) -> dict[str, str]:
    return {"PILUM_ROUND": str(seed), "PILUM_UNTIL": str(until), "PYTHONHASHSEED": str(seed)}


def _read(report: Path) -> Ended:
    """Reads the report: the older form names files, which is what pytest wants to be given."""
    passed, failed = 0, []
    for case in ET.parse(report).iter("testcase"):
        ends = {end.tag for end in case}
        if ends & {"failure", "error"}:
            failed.append(_name(case))
        elif "skipped" not in ends:
            passed += 1
    return Ended(passed, tuple(failed))


def _name(case: ET.Element) -> str:
    """Returns the name of a test as pytest takes it: its file, its class if any, and itself."""
    file, name = case.get("file", ""), case.get("name", "")
    module = file.removesuffix(".py").replace("/", ".")
    of_class = case.get("classname", "").removeprefix(module).lstrip(".")
    return "::".join(part for part in (file, of_class, name) if part)
