"""Goals of vector search: what is to be reached, what was measured, and whether it suffices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.vectors.memory import Memory
from bench.vectors.run import BUILD, Figure

__all__ = ["Verdict", "verdicts"]

_LEAST_RECALL = -0.01
"""Recall may differ by so much, as each library trained its own models."""

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line of the table.

    Attributes:
        what: What is measured.
        goal: The goal, as text.
        figure: The measured figure, as text.
        is_met: Whether it reaches the goal.
    """

    what: str
    goal: str
    figure: str
    is_met: bool


def verdicts(figures: Sequence[Figure], memory: Memory) -> Iterator[Verdict]:
    """Yield the goals that these figures say something about."""
    for figure in figures:
        yield from _of_search(figure)
        yield from _of_build(figure)
    compared = [one for one in figures if {"pilum", "pylance"} <= one.recalls.keys()]
    if compared:
        worst = min(compared, key=_difference)
        yield Verdict(
            "recall@10 with equal parameters, comparing as many rows, at worst",
            "not below pylance's (by more than 0.01)",
            f"{_difference(worst):+.3f} ({worst.kind}, {worst.name}, {worst.shape})",
            _difference(worst) >= _LEAST_RECALL,
        )
    for kind, step in dict.fromkeys((kind, step) for kind, step, _ in memory):
        own, peer = memory[kind, step, "pilum"], memory[kind, step, "pylance"]
        yield Verdict(
            f"{kind}: memory of {'the build' if step == BUILD else '200 searches'}",
            "at most pylance's",
            f"{own / _MIB:,.0f} MiB; pylance {peer / _MIB:,.0f} MiB",
            own <= peer,
        )


def _difference(figure: Figure) -> float:
    own = figure.recalls["pilum"] if figure.level_recall is None else figure.level_recall
    return own - figure.recalls["pylance"]


def _of_search(figure: Figure) -> Iterator[Verdict]:
    what = f"{figure.kind}, {figure.name} ({figure.shape})"
    limits = {
        "ids and distances": (150, 8.0),
        "a column, refined 5 x": (300, None),
        "batch of 100": (30, None),
        "first query, cold": (None, 3.0),
        "exact": (None, 3.0),
    }
    if figure.name.startswith("filter"):
        yield _compared(figure, what, None, 5.0)
    elif figure.name in limits:
        yield _compared(figure, what, *limits[figure.name])
    if figure.peer == "hnswlib" and figure.name != BUILD:
        times = figure.best / figure.median("hnswlib")
        yield Verdict(
            f"{what}, beside hnswlib",
            "at most 1.5 x its time",
            f"{times:.1f} x ({figure.median('hnswlib') * 1e6:,.0f} us)",
            times <= 1.5,
        )


def _compared(
    figure: Figure, what: str, most_us: float | None, least_times: float | None
) -> Verdict:
    us, times = figure.best * 1e6, figure.median("pylance") / figure.best
    goals = [f"at most {most_us:,.0f} us"] if most_us is not None else []
    goals += [f"at least {least_times:g} x as fast as pylance"] if least_times is not None else []
    is_met = (most_us is None or us <= most_us) and (least_times is None or times >= least_times)
    has_recall = "pylance" not in figure.recalls or _difference(figure) >= _LEAST_RECALL
    return Verdict(what, ", ".join(goals), f"{us:,.0f} us, {times:.1f} x", is_met and has_recall)


def _of_build(figure: Figure) -> Iterator[Verdict]:
    limits = {("IVF_PQ", 64): 2.0, ("IVF_HNSW_SQ", 64): 6.0}
    most = limits.get((figure.kind, figure.shape.dimension))
    if figure.name == BUILD and most is not None:
        seconds = figure.median("pilum")
        peer = f", {figure.peer} {figure.median(figure.peer):.1f} s" if figure.peer else ""
        yield Verdict(
            f"build of {figure.kind} ({figure.shape})",
            f"at most {most:g} s",
            f"{seconds:.1f} s; pylance {figure.median('pylance'):.1f} s{peer}",
            seconds <= most,
        )
