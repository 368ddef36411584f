"""The house as a whole: what `import pilum` costs, and that its parts say the same."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
import zlib
from collections.abc import Collection
from graphlib import TopologicalSorter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = (
    "boto3",
    "duckdb",
    "lance",
    "obstore",
    "pandas",
    "pilum.expressions.nodes",
    "psycopg",
    "pyspark",
    "shapely",
    "sqlglot",
    "sqlite3",
)


def run_python(code: str, **environment: str) -> Any:
    """Runs code in a fresh interpreter; returns the JSON that it prints last."""
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.splitlines()[-1])


def test_importing_pilum_imports_nothing_heavy() -> None:
    code = f"import sys, json, pilum; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    assert run_python(code) == []


def test_importing_pilum_takes_fewer_steps_than_importing_arrow(tmp_path: Path) -> None:
    # Calls of functions, which are the same on every machine, in the second run: the first one
    # compiles what the second finds compiled, as it is for users after the first time.
    cache = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    code = """
import json, sys
calls = 0
def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
sys.setprofile(count)
import numpy, pyarrow, pyarrow.compute
arrow = calls
import pilum
sys.setprofile(None)
print(json.dumps([arrow, calls - arrow]))
"""
    run_python(code, **cache)
    arrow, ours = run_python(code, **cache)
    assert ours < 0.8 * arrow


def test_a_reader_of_the_code_follows_a_job_through_few_files() -> None:
    most = {"scan": 30, "filtered scan": 45, "take": 35, "append": 43, "merge": 56}
    entered = run_python((ROOT / "tests" / "entered_files.py").read_text())
    found = {name: len(files) for name, files in entered.items()}
    assert all(0 < found[name] <= limit for name, limit in most.items()), found


def test_the_package_and_its_kernels_have_one_version() -> None:
    try:
        installed = version("pilum")
    except PackageNotFoundError:
        pytest.skip("pilum is imported from the tree, not installed")
    manifest = tomllib.loads((ROOT / "rust" / "Cargo.toml").read_text())
    assert installed == manifest["workspace"]["package"]["version"]


def test_the_wheel_will_be_small() -> None:
    """`make wheel` refuses more than 6.5 MB, of which names and metadata take 130 kB."""
    files = [path for path in (ROOT / "pilum").rglob("*.*") if "__pycache__" not in path.parts]
    packed = [len(zlib.compress(path.read_bytes(), 9)) for path in files if path.is_file()]
    assert sum(packed) < 6_500_000 - 130_000


@pytest.mark.parametrize("lock", ["dev", "demo"])
def test_the_lock_holds_every_dependency(lock: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"][lock]]
    names = {re.split(r"[\[<>=!~ ]", text)[0] for text in wanted} - {"pilum"}
    lines = (ROOT / "requirements" / f"{lock}.lock").read_text().splitlines()
    locked = {line.split("==")[0] for line in lines if "==" in line and line[0].isalnum()}
    assert names - locked == set(), "run: make lock"


def test_the_lowest_versions_are_those_that_are_promised() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    promised = [re.sub(r"(.+)>=([\d.]+).*", r"\1==\2", text) for text in project["dependencies"]]
    lines = (ROOT / "requirements" / "lowest.txt").read_text().splitlines()
    tried = [line.removesuffix(".*") for line in lines if not line.startswith("#")]

    def whole(version: str) -> str:
        return f"{version}.0" if version.count(".") == 0 else version

    assert sorted(map(whole, promised)) == sorted(tried), "requirements/lowest.txt"


def test_no_source_needs_pandas_for_the_types_of_numpy() -> None:
    calls = [
        file for file in (ROOT / "pilum").rglob("*.py") if ".to_pandas_dtype(" in file.read_text()
    ]
    assert calls == [], "before pyarrow 26, to_pandas_dtype fails without pandas: use number_dtype"


def citations() -> list[tuple[str, str, str]]:
    """What sources cite: (file, page of docs, heading or "")."""
    found = []
    for folder, pattern in (("pilum", "*.py"), ("rust/kernels/src", "*.rs"), ("protos", "*.proto")):
        for file in (ROOT / folder).rglob(pattern):
            text = re.sub(r"\n\s*(//[/!]?|#)?\s*", " ", file.read_text())
            for page, heading in re.findall(r'(docs/[\w./-]+\.md)(?:, "([^"]+)")?', text):
                found.append((str(file.relative_to(ROOT)), page, heading))
    return found


def test_what_sources_cite_is_there() -> None:
    missing = []
    for file, page, heading in citations():
        path = ROOT / page
        text = path.read_text() if path.exists() else ""
        titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
        if not text or (heading and heading not in titles):
            missing.append(f'{file} cites {page}, "{heading}"')
    assert missing == []


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    return script("prose")


def script(name: str) -> ModuleType:
    """Imports a script, whose name need not be that of a module."""
    spec: Any = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_texts_and_docstrings_are_plain(prose: ModuleType) -> None:
    assert list(prose.findings(prose.all_files())) == [], "see CONTRIBUTING.md, Words to avoid"


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ('"""Of the table."""', "begins with 'Of'"),
        ('"""No."""', "a sentence is needed"),
        ('"""Read a page"""', "no period"),
        ('def f():\n    """The rows of a page."""', "begins with 'The', not with a verb"),
        ("# whoever comes next", "'whoever'"),
        ('raise ValueError(f"{name}: the file holds {count} rows")', "'file holds'"),
        ('raise ValueError("the next one stands "\n    "behind it")', "'behind'"),
    ],
)
def test_riddles_are_found(prose: ModuleType, source: str, finding: str) -> None:
    assert any(finding in what for _, what in prose.check_python(source))


@pytest.mark.parametrize(
    "source",
    [
        '"""Pages of one column."""',
        'def f():\n    """Return rows.\n\n    >>> blob.tell()\n    """',
        'class C:\n    @property\n    def rows(self):\n        """The rows of a page."""',
        "behind = 3",
        "# see `behind`",
    ],
)
def test_code_and_plain_sentences_are_no_riddles(prose: ModuleType, source: str) -> None:
    assert list(prose.check_python(source)) == []


def test_code_in_pages_is_left_out(prose: ModuleType) -> None:
    page = "a\n```python\ntold = 1\n```\nnobody\n## Words to avoid\n| behind |\n"
    assert [line for line, _ in prose.check_page(page)] == [5]


def test_no_test_depends_on_the_machine() -> None:
    """Speed and memory of a process are measured by the bench and judged where one explores."""
    words = re.compile(r"process_time|perf_counter|ru_maxrss|suppress_health_check|max_rss")
    allowed = {"conftest.py", "explore/costs.py", "test_house.py"}
    tests = ROOT / "tests"
    found = {
        str(path.relative_to(tests))
        for path in tests.rglob("*.py")
        if words.search(path.read_text())
    }
    assert found <= allowed


def test_tables_are_opened_in_one_place() -> None:
    """What opens a store past it would not ask who decides about versions."""
    # Journals of jobs may be in a folder of their own, and exported files are no table.
    allowed = {
        "table/versions/commit_handler.py",
        "file/session.py",
        "dataset/explain.py",
        "distributed/files.py",
        "distributed/journal.py",
        "inspection/conversion.py",  # Parquet files
        "inspection/summaries.py",  # folders of tables
        "namespace/directory.py",  # the same
    }
    package = ROOT / "pilum"
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if "import open_store" in path.read_text() and path.parent.name != "storage"
    }
    assert found <= allowed


def test_the_diagrams_are_those_of_the_code() -> None:
    diagrams = script("draw-diagrams")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    floors = next(one["layers"] for one in contracts["contracts"] if one["containers"] == ["pilum"])
    drawn = [name for _, names, _ in diagrams.LAYERS for name in names]
    floor_of = {
        name: place for place, floor in enumerate(floors) for name in re.findall(r"\w+", floor)
    }
    assert [floor_of[name] for name in drawn] == sorted(floor_of[name] for name in drawn)
    for name, draw in diagrams.PICTURES.items():
        assert (diagrams.IMAGES / name).read_text(encoding="utf-8") == draw()


def test_no_files_of_the_kernels_import_each_other_in_a_circle() -> None:
    root = ROOT / "rust" / "kernels" / "src"
    texts = {
        path.relative_to(root).with_suffix("").as_posix().removesuffix("/mod"): path.read_text()
        for path in root.rglob("*.rs")
    }
    graph = {name: imported_by(name, text, texts.keys()) for name, text in texts.items()}
    assert len(graph) > 50
    assert all(any(graph[name]) for name in ("mini_block", "vector/search"))
    TopologicalSorter(graph).prepare()  # the CycleError names the files


def imported_by(name: str, text: str, known: Collection[str]) -> set[str]:
    """The files of which a file of Rust uses something, in its own code, not in its tests."""
    code, _, _ = text.partition("#[cfg(test)]")
    parent = name.rpartition("/")[0]
    folder = {"crate": "", "super": parent, "super::super": parent.rpartition("/")[0]}
    found = set()
    for start, path, several in re.findall(
        r"\b(crate|super(?:::super)?)::([\w:]*)(\{[^}]*)?", code
    ):
        parts = [part for part in (folder[start], *path.split("::")) if part]
        ends = re.findall(r"\w+", several) or [""]
        for end in ends:
            whole = "/".join([*parts, end]).split("/")
            prefixes = ("/".join(whole[:count]) for count in range(len(whole), 0, -1))
            found.add(next((prefix for prefix in prefixes if prefix in known), name))
    return found - {name}
