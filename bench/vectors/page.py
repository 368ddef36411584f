"""The section "Vectors" of the page: goals, figures and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.machine import summary
from bench.vectors.goals import verdicts
from bench.vectors.memory import Memory
from bench.vectors.run import BUILD, Figure

__all__ = ["cells_of", "guide_table", "put_guide_table", "section"]

_HEAD = """## Vectors

Each library built its own indices with the same parameters on its own copy of the table, and
searched with the same settings; k = 10, queries that are not among the rows, recall@10 of 2,000
queries against an exact search. Libraries took turns of ten of 200 queries; medians. {cores} cores
of {processor}. The last column is a library with the vectors in memory, in one thread, at the least
effort that reaches the recall of pilum. A filter that is repeated is evaluated once: the session
keeps its rows.

"Level" is the recall of pilum where it compares as many rows as pylance. With as many partitions,
pylance often compares more rows, because the sizes of its partitions differ more.

Times of pilum under "Goals" are those of a prepared search (`prepare_nearest`), where that is
faster than `to_table`.

### Goals

| | goal | measured | |
|---|---|---|---|
{goals}

### Figures

{figures}"""

_IN_GUIDE: dict[str, dict[str, int]] = {
    "ids and distances": {},
    "a column, refined 5 x": {"refine_factor": 5},
}
"""The searches that the guide shows, and their further settings."""

_BEGIN, _END = "<!-- written by bench.vectors -->\n", "<!-- end -->\n"

_COLUMNS = """| | pilum | prepared | pylance | times faster | recall | level | pylance | in memory |
|---|---:|---:|---:|---:|---:|---:|---:|---|
"""


def section(figures: Sequence[Figure], memory: Memory, pictures: Iterable[tuple[str, str]]) -> str:
    """Return the section.

    Args:
        figures: What was measured.
        memory: Memory of builds and searches.
        pictures: Titles and locations of pictures.
    """
    goals = [
        f"| {one.what} | {one.goal} | {one.figure} | {'met' if one.is_met else 'missed'} |"
        for one in verdicts(figures, memory)
    ]
    machine = summary()
    text = _HEAD.format(
        cores=machine["cores"],
        processor=machine["processor"],
        goals="\n".join(goals),
        figures="\n".join(_tables(figures)),
    )
    shown = [f"![{title}]({place})\n" for title, place in pictures]
    return "\n".join([text, "### Recall by latency\n", *shown] if shown else [text])


def guide_table(figures: Sequence[Figure]) -> str:
    """Return the table of the guide: what each index of the first shape costs, and finds."""
    shape = figures[0].shape
    own = [figure for figure in figures if figure.shape is shape]
    count, dimension = f"{shape.num_rows:,}", shape.dimension
    lines = [
        f"{count} {shape.data} vectors of {dimension} numbers, one query after another, k = 10:",
        "",
        "| Index | Built in | Bytes a row | Settings | Query | Recall@10 |",
        "|---|---:|---:|---|---:|---:|",
    ]
    settings = {one.kind: one.settings for one in shape.builds}
    for build in (figure for figure in own if figure.name == BUILD):
        size = build.size_bytes / shape.num_rows
        head = f"| {build.kind} | {build.median('pilum'):.1f} s | {size:,.0f} |"
        found = [one for one in own if one.kind == build.kind and one.name in _IN_GUIDE]
        for search in found:
            given = {**settings[build.kind], **_IN_GUIDE[search.name]}
            shown = ", ".join(f"`{name}` {value}" for name, value in given.items())
            recall = search.recalls["pilum"]
            lines.append(f"{head} {shown} | {search.best * 1e3:.2f} ms | {recall:.3f} |")
            head = "| | | |"
    exact = [one for one in own if one.name == "exact"]
    lines += [f"| none | | | | {one.best * 1e3:.2f} ms | 1.000 |" for one in exact]
    return "\n".join(lines) + "\n"


def put_guide_table(page: Path, table: str) -> None:
    """Replace the table of the guide."""
    head, _, rest = page.read_text().partition(_BEGIN)
    _, mark, tail = rest.partition(_END)
    if not mark:
        raise ValueError(f"{page}: no {_BEGIN.strip()} and {_END.strip()}")
    page.write_text(f"{head}{_BEGIN}{table}{_END}{tail}")


def _tables(figures: Sequence[Figure]) -> Iterator[str]:
    for shape in dict.fromkeys(figure.shape for figure in figures):
        lines = [
            f"| {' | '.join(cells_of(figure))} |" for figure in figures if figure.shape is shape
        ]
        title = f"{str(shape).capitalize()} (milliseconds; builds: seconds)"
        yield f"{title}:\n\n{_COLUMNS}" + "\n".join(lines) + "\n"


def cells_of(figure: Figure) -> list[str]:
    """Return the cells of a line: milliseconds of searches, seconds of builds."""
    return [
        f"{figure.kind}: {figure.name}",
        _time(figure, "pilum"),
        _time(figure, "prepared"),
        _time(figure, "pylance"),
        f"{figure.median('pylance') / figure.best:.1f}",
        _recall(figure, "pilum"),
        "" if figure.level_recall is None else f"{figure.level_recall:.3f}",
        _recall(figure, "pylance"),
        f"{figure.peer} {_time(figure, figure.peer)}" if figure.peer else "",
    ]


def _time(figure: Figure, library: str) -> str:
    if library not in figure.samples:
        return ""
    if figure.name == BUILD:
        return f"{figure.median(library):,.2f}"
    return f"{figure.median(library) * 1e3:,.3f}"


def _recall(figure: Figure, library: str) -> str:
    return f"{figure.recalls[library]:.3f}" if library in figure.recalls else ""
