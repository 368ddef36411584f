"""Every Python block of the README and the guides runs, and every link leads somewhere.

The blocks of one page are run in order, as one script in an empty folder (`pages.py`). A block that
cannot run is preceded by a line that says why:

    <!-- not run: needs a cluster -->

A block that needs a package which only some machines have is left out on the others:

    <!-- needs: torch -->

The script has the blocks at the lines that they have in the page, so a traceback names those.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import jvm
import pytest
from guard import GUARD_SECONDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "index.md", *sorted(ROOT.glob("docs/guide/*.md"))]
SMALL_SPARK = (
    "--conf spark.sql.shuffle.partitions=2 --conf spark.ui.enabled=false "
    "--conf spark.python.daemon.module=spark.preloaded pyspark-shell"
)
"""How pages start Spark: it plans for few rows, and its workers import nothing."""
FENCES = {"```python", "```sh", "```text", "```sql"}
NOT_RUN = "<!-- not run:"
NEEDS = re.compile("<!-- needs: ([a-z]+) -->")
RUNNER = Path(__file__).with_name("pages.py")


def script(page: str) -> str:
    """The page with everything but its runnable Python blocks made blank."""
    lines: list[str] = []
    fence, before = "", ""
    for line in page.splitlines():
        code = ""
        if line.startswith("```"):
            assert fence or line in FENCES, f"a block of unknown kind: {line}"
            fence = "" if fence else line + before
        elif fence == "```python":
            code = line
        lines.append(code)
        before = line if line.startswith(NOT_RUN) or _is_missing(line) else ""
    return "\n".join(lines) + "\n"


def _is_missing(line: str) -> bool:
    """Whether the line says that the next block needs a package that is not installed."""
    package = NEEDS.fullmatch(line)
    return package is not None and find_spec(package[1]) is None


TEXTS = {page: script(page.read_text()) for page in PAGES}
ON_SPARK = [page for page in PAGES if "pyspark" in TEXTS[page]]
PLAIN = [page for page in PAGES if page not in ON_SPARK]
Errors = dict[Path, str]


def errors_of(kind: str, pages: list[Path], folder: Path) -> Errors:
    """Run pages, and return the traceback of each that fails."""
    files = {page: folder / f"{page.stem}.py" for page in pages}
    for page, file in files.items():
        file.write_text(TEXTS[page])
    (empty := folder / "empty").mkdir()
    own = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": SMALL_SPARK,
        **jvm.ENVIRONMENT,
    }
    done = subprocess.run(
        [sys.executable, RUNNER, kind, *files.values()],
        cwd=empty,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=GUARD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {page: file.with_suffix(".error").read_text() for page, file in files.items()}


@pytest.fixture(scope="module")
def plain_errors(tmp_path_factory: pytest.TempPathFactory) -> Errors:
    return errors_of("plain", PLAIN, tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def spark_errors(tmp_path_factory: pytest.TempPathFactory) -> Errors:
    return errors_of("spark", ON_SPARK, tmp_path_factory.mktemp("spark"))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PLAIN, ids=name_of)
def test_the_blocks_of_a_page_run(page: Path, plain_errors: Errors) -> None:
    assert not plain_errors[page]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("page", ON_SPARK, ids=name_of)
def test_the_blocks_of_a_page_about_spark_run(page: Path, spark_errors: Errors) -> None:
    assert not spark_errors[page]


def test_a_block_with_a_reason_is_left_out() -> None:
    page = "a\n```python\nrun()\n```\n<!-- not run: no -->\n```python\nnever()\n```\n"
    assert script(page).split() == ["run()"]


def test_a_block_is_left_out_without_its_package() -> None:
    page = "<!-- needs: {} -->\n```python\nrun()\n```\n"
    assert script(page.format("numpy")).split() == ["run()"]
    assert script(page.format("nosuchpackage")).split() == []


def test_every_page_is_in_the_navigation_and_the_index() -> None:
    pages = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert {page for page in pages if f": {page}\n" not in navigation} == set()
    index = (ROOT / "docs" / "index.md").read_text()
    assert {page for page in pages if f"]({page})" not in index} == {"index.md"}


def test_every_link_leads_to_a_page_and_a_heading() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    headings = {page: set(map(anchor, headings_of(page))) for page in pages}
    dead = set()
    for page in pages:
        for link in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page.read_text())):
            path, _, heading = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not (
                link.startswith("https://")
                or (target.exists() and (not heading or heading in headings[target]))
            ):
                dead.add((str(page.relative_to(ROOT)), link))
    assert dead == set()


def headings_of(page: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", without_blocks(page.read_text()), re.MULTILINE)


def without_blocks(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)


def anchor(heading: str) -> str:
    """The name by which links refer to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
