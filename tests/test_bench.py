"""The bench runs, and believes no library that answers wrong."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("rich", reason="the bench needs rich")

import bench
import pilum
from bench import against, integrations
from bench.cli import main
from bench.goals import slower, verdicts
from bench.peers import LANCE_VERSIONS, PEERS
from bench.peers.parquet import Parquet
from bench.plots import bars
from bench.predicates import Term
from bench.questions import QUESTIONS
from bench.questions.cold import ColdScan
from bench.questions.memory import Memory
from bench.questions.one_core import ScanOnOneCore
from bench.questions.take import Take
from bench.rounds import Cell, Settings, run
from bench.sections import put_section, with_sections_of
from bench.shapes import SHAPES
from bench.vectors import cases as vector_cases
from bench.vectors import goals as vector_goals
from bench.vectors import page as vector_page
from bench.vectors.rows import recall_at, rows_by_probes
from bench.vectors.run import Figure as VectorFigure


@pytest.mark.slow
@pytest.mark.reference
def test_a_tiny_run_answers_every_question_for_every_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # They start a process for each peer, or copy the files each time.
    monkeypatch.setattr(Memory, "shapes", frozenset({"mixed table"}))
    for question in QUESTIONS.values():
        if isinstance(question, Memory | ScanOnOneCore | ColdScan):
            monkeypatch.setattr(question, "shapes", frozenset({"mixed table"}))
    _need_generator()
    pytest.importorskip("lance", reason="pylance is not installed")
    pytest.importorskip("vortex", reason="vortex-data is not installed")
    files = {name: str(tmp_path / f"bench.{name}") for name in ("json", "md")}
    assert main(["--smoke", "--json", files["json"], "--page", files["md"]]) == 0

    result = json.loads((tmp_path / "bench.json").read_text())
    assert {cell["peer"] for cell in result["cells"]} == set(PEERS)
    cases = {question.case for question in QUESTIONS.values()} - {""}
    assert {cell["shape"] for cell in result["cells"]} == {*SHAPES, *cases}
    asked = {question.name for question in QUESTIONS.values()}
    assert {cell["question"] for cell in result["cells"]} == asked
    assert {cell["file_version"] for cell in result["cells"]} == set(LANCE_VERSIONS)
    # Older versions hold no nulls of some types: pilum refuses these, pylance changes them.
    problems = [cell for cell in result["cells"] if cell["problem"]]
    oldest = {name: shape.oldest for name, shape in SHAPES.items()}
    assert [c for c in problems if c["file_version"] >= oldest.get(c["shape"], "")] == []
    lossy = {
        (name, v) for name, shape in SHAPES.items() for v in ("0.1", "2.0") if v < shape.oldest
    }
    assert {(cell["shape"], cell["file_version"]) for cell in problems} == lossy
    assert "geometric mean" in capsys.readouterr().out
    text = (tmp_path / "bench.md").read_text()
    assert all(f"| {shape} |" in text for shape in SHAPES)
    assert all(f"## {question.capitalize()}\n" in text for question in asked)
    assert text.count(".svg)") == len(list((tmp_path / "bench").iterdir())) > 0


def _need_generator() -> None:
    try:
        SHAPES["lineitem"].table(10)
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_two_checkouts_take_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "bench.md"
    page.write_text("# Measured\n")
    tasks = ["int64 nulls: take 100", "append 1 row, 2,000 rows"]
    chosen = [text for task in tasks for text in ("--only", task)]
    arguments = [str(Path(bench.__file__).parents[1]), *chosen, "--rows", "2000", "--seconds", "0"]
    assert against.main([*arguments, "--page", str(page)]) in (0, 1)  # as the noise has it
    assert all(f"| {task} |" in page.read_text() for task in tasks)


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "colour"])
    assert "--only colour" in capsys.readouterr().err


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_a_shape_is_the_same_every_time(shape: Any) -> None:
    if shape.name == "lineitem":
        _need_generator()
    table = shape.table(500)
    assert table.num_rows == max(1, 500 // shape.one_in)
    assert table.equals(shape.table(500))


def test_each_bench_keeps_the_sections_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "bench.md"
    path.write_text("# Measured\n\n## Scan\n\nold\n\n## Gone\n\nold\n")
    put_section(path, "## Larger than memory\n\nfirst\n")
    put_section(path, "## Larger than memory\n\nsecond\n")
    text = with_sections_of(path, "# Measured\n\n## Scan\n\nnew\n")
    assert text == "# Measured\n\n## Scan\n\nnew\n\n## Larger than memory\n\nsecond\n"
    assert with_sections_of(tmp_path / "none.md", "# Measured\n") == "# Measured\n"


@pytest.mark.reference
@pytest.mark.parametrize("name", list(PEERS))
def test_each_library_is_asked_the_same_filter(name: str, tmp_path: Path) -> None:
    pytest.importorskip({"pylance": "lance", "vortex": "vortex"}.get(name, "pilum"))
    days = [date(2020, 1, day) for day in (1, 2, 3, 4)]
    prices = pa.array(
        [Decimal("1.00"), Decimal("2.50"), None, Decimal("4.00")], pa.decimal128(15, 2)
    )
    rows = {"n": [1, 2, 3, 4], "day": days, "price": prices, "text": ["ab", "b", "abc", None]}
    table = pa.table(rows)
    peer = PEERS[name]()
    peer.write_stream(table.to_reader(), tmp_path / "table")
    handle = peer.open(tmp_path / "table")
    for predicate, numbers in [
        ((Term("n", "=", 3),), [3]),
        ((Term("n", ">=", 2), Term("day", "<", date(2020, 1, 4))), [2, 3]),
        ((Term("price", ">", Decimal("1.00")),), [2, 4]),
        ((Term("price", "is null"),), [3]),
        ((Term("price", "is not null"), Term("n", "<=", 2)), [1, 2]),
        ((Term("text", "like", "ab%"),), [1, 3]),
        ((Term("text", "in", ("b", "abc")),), [2, 3]),
    ]:
        found = peer.filter(handle, predicate, ["n"], None)
        assert found.column("n").to_pylist() == numbers, predicate
        assert peer.count(handle, predicate) == len(numbers)
        assert peer.filter(handle, predicate, None, 1).num_rows == 1
    assert peer.take(handle, np.array([3, 0, 0])).column("n").to_pylist() == [4, 1, 1]
    assert peer.schema(peer.open_new(tmp_path / "table")).names == table.column_names


def test_a_goal_is_reached_by_the_mean_of_its_cases() -> None:
    medians = {("scan", "a"): (1.0, 8.0, 2.0), ("scan", "b"): (2.0, 8.0, 1.0)}
    cells = [
        {"question": question, "shape": shape, "peer": peer, "median": median}
        for (question, shape), found in medians.items()
        for peer, median in zip(("pilum", "pylance", "vortex"), found, strict=True)
    ]
    scan, core, *_ = verdicts(cells)
    assert scan.cells == ["scan", "4.5", "5.66", "reached", "5.66"]
    assert core.cells == ["one core", "3", "–", "–", "–"]
    assert slower(cells) == [["scan", "b", "vortex", "0.50"]]


def test_bars_are_drawn_for_every_case_and_peer() -> None:
    drawn = ET.fromstring(bars("t", {"a & b": {"x": 2.0, "y": 0.5}, "c": {"x": 1.0}}))
    texts = [element.text for element in drawn if element.tag.endswith("text")]
    assert texts == ["t", "a & b", "2.00", "0.50", "c", "1.00", "x", "y"]


class Forgetful(Parquet):
    """Loses the last row."""

    def scan(self, handle: Any) -> pa.Table:
        table = super().scan(handle)
        return table.slice(0, table.num_rows - 1)


def test_a_wrong_answer_is_not_timed() -> None:
    (cell,) = _ask(Forgetful())
    assert (cell.problem, cell.median) == ("wrong values", None)


class Broken(Parquet):
    """Cannot write."""

    name = "broken"

    def write(self, table: pa.Table, path: Path) -> None:
        raise NotImplementedError("no such type\nand a long tale")


def test_a_library_that_cannot_is_named_and_the_others_go_on() -> None:
    cells = _ask(Parquet(), Broken())
    assert [cell.problem for cell in cells] == [None, "NotImplementedError: no such type"]
    assert cells[0].median is not None
    assert [len(cell.samples) for cell in cells] == [2, 0]


class Seconds(Take):
    """Answers at once, and says that it took so long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(1)
        self.seconds = seconds
        self.asked: list[tuple[str, int]] = []

    def measure(self, subject: Any, round_number: int) -> float:
        self.asked.append((subject.peer.name, round_number))
        return self.seconds


@pytest.mark.parametrize(("seconds", "calls"), [(0.0, 10), (0.002, 3), (1.0, 1)])
def test_short_calls_are_repeated_in_a_turn(seconds: float, calls: int) -> None:
    question, other = Seconds(seconds), type("Other", (Parquet,), {"name": "other"})
    settings = Settings(rows=100, repeat=2, seconds=0.0)
    cells = list(run([SHAPES["float64"]], [question], [Parquet(), other()], settings))
    assert [(len(cell.samples), len(cell.firsts)) for cell in cells] == [(3 * calls, 3)] * 2
    assert [cell.first for cell in cells] == [None if calls == 1 else seconds] * 2
    names = [name for name, _ in question.asked[::calls]]
    assert names == ["parquet", "other", "other", "parquet", "parquet", "other"]
    asked = [[number for name, number in question.asked if name == one] for one in set(names)]
    assert asked[0] == asked[1]
    assert len(set(asked[0])) == 3 * calls


def test_a_tiny_run_asks_once() -> None:
    question = Seconds(0.0)
    list(run([SHAPES["float64"]], [question], [Parquet()], Settings(100, repeat=0, seconds=0.0)))
    assert question.asked == [("parquet", 1)]


def _ask(*peers: Any) -> list[Cell]:
    settings = Settings(rows=100, repeat=2, seconds=0.0)
    return list(run([SHAPES["float64"]], [QUESTIONS["scan"]], list(peers), settings))


def test_vectors_have_verdicts_and_a_table_for_the_guide(tmp_path: Path) -> None:
    shape, seconds = vector_cases.SHAPES[0], {"pilum": [1e-4], "pylance": [1e-3]}
    recalls = {"pilum": 0.95, "pylance": 0.9}
    figures = [
        VectorFigure(shape, "IVF_FLAT", "build", {"pilum": [2.0], "pylance": [9.0]}, size_bytes=10),
        VectorFigure(shape, "IVF_FLAT", "ids and distances", seconds, recalls),
        VectorFigure(shape, "IVF_PQ", "ids and distances", seconds, {**recalls, "pilum": 0.5}),
        VectorFigure(shape, "IVF_FLAT", "exact", {"pilum": [1e-3], "pylance": [2e-3]}),
    ]
    memory = {
        ("IVF_PQ", "build", name): size << 20 for name, size in (("pilum", 9), ("pylance", 5))
    }
    found = {one.what: one for one in vector_goals.verdicts(figures, memory)}
    assert [one.is_met for one in found.values()] == [True, False, False, False, False]
    section = vector_page.section(figures, memory, [("title", "bench/p.svg")])
    assert section.startswith("## Vectors")
    assert "![title](bench/p.svg)" in section
    guide = tmp_path / "guide.md"
    guide.write_text("before\n<!-- written by bench.vectors -->\nold\n<!-- end -->\nafter\n")
    for _ in range(2):
        vector_page.put_guide_table(guide, vector_page.guide_table(figures))
    text = guide.read_text()
    assert "| IVF_FLAT | 2.0 s | 0 | `nprobes` 8 | 0.10 ms | 0.950 |" in text
    assert text.startswith("before\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text


def test_recall_counts_where_as_many_rows_are_compared() -> None:
    shape, seconds = vector_cases.SHAPES[0], {"pilum": [1e-4], "pylance": [1e-3]}
    recalls = {"pilum": 0.7, "pylance": 0.8}
    figure = VectorFigure(shape, "IVF_FLAT", "ids and distances", seconds, recalls)
    for level, is_met in ((None, False), (0.75, False), (0.81, True)):
        figure.level_recall = level
        assert all(one.is_met is is_met for one in vector_goals.verdicts([figure], {}))
    [line] = [one for one in vector_page.section([figure], {}, []).splitlines() if "0.700" in one]
    assert "| 0.700 | 0.810 | 0.800 |" in line


def test_rows_of_partitions_are_counted_by_brute_force(tmp_path: Path) -> None:
    vectors = vector_cases.make_vectors("clustered", 600, 4, 5)
    dataset = pilum.write_dataset(vectors.table(), tmp_path / "t")
    dataset.create_index("vector", "IVF_FLAT", num_partitions=6)
    rows = rows_by_probes(dataset, vectors.queries)
    assert rows[-1] == 600
    [found] = dataset.stats.index_stats("vector_idx")["indices"]
    nearest = [
        np.argsort(((np.array(found["centroids"]) - query) ** 2).sum(axis=1))[:2]
        for query in vectors.queries
    ]
    sizes = [sum(found["partitions"][one]["size"] for one in own) for own in nearest]
    assert rows[1] == np.mean(sizes)
    by_probes = {1: 0.5, 2: 0.6, 3: 0.9}
    for num_rows, recall in ((5, 0.5), (10, 0.5), (15, 0.55), (20, 0.6), (25, 0.675), (99, 0.9)):
        found_recall = recall_at(num_rows, np.array([10.0, 20.0, 40.0]), by_probes.__getitem__)
        assert found_recall == pytest.approx(recall)


def test_the_nearest_vectors_of_groups_are_those_of_brute_force() -> None:
    vectors = vector_cases.make_vectors("uniform", 500, 4, 3)
    expected = vectors.of_groups((10, 40)).nearest
    own = np.flatnonzero((vectors.groups() >= 10) & (vectors.groups() < 40))
    for query, near in zip(vectors.queries, expected, strict=True):
        distances = ((vectors.rows[own] - query) ** 2).sum(axis=1)
        assert near.tolist() == own[np.argsort(distances)[:10]].tolist()


@pytest.mark.reference
def test_other_libraries_get_the_same_answers_from_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("lance", reason="the reference implementation is not installed")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{integrations._BEGIN}\nold\n{integrations._END}\nafter\n")
    monkeypatch.setattr(integrations, "_PAGE", page)
    monkeypatch.setattr(integrations, "TASKS", {"acero": integrations.TASKS["acero"]})
    assert integrations.main(["--rows", "1000", "--rounds", "1", "--write"]) == 0
    written = page.read_text()
    assert "| the sum of a column |" in written
    assert "old" not in written
    assert (written[:6], written[-6:]) == ("before", "after\n")
