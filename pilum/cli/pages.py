"""The commands that show how values are stored, and how a query is run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pilum.cli.arguments import AsJson, At, Columns, Storage, opened, storage_options
from pilum.cli.outcome import Exit
from pilum.cli.output import console, note, print_drawing, print_json, say
from pilum.dataset.explain import Explanation, explain, explain_file
from pilum.errors import DatasetNotFoundError, InvalidInputError
from pilum.pictures.html import page
from pilum.pictures.page_map_svg import page_map_svg
from pilum.pictures.page_map_text import page_map_text
from pilum.storage.open import open_object

__all__ = ["explain_query", "pages"]

_FILE_SUFFIX = ".lance"


def pages(
    location: Annotated[str, typer.Argument(help="Location of a table or of one data file.")],
    columns: Columns = None,
    fragment: Annotated[
        int | None, typer.Option("--fragment", help="Only the files of this fragment.")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the picture as SVG.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the picture as a page.")
    ] = None,
    version: At = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Draw the pages of each column to scale, by encoding: in the terminal, as SVG or HTML."""
    found = _explained(location, columns, fragment, version, storage)
    picture = found.picture(location.rstrip("/").rpartition("/")[2])
    if svg is not None:
        svg.write_text(page_map_svg(picture), encoding="utf-8")
        note(f"wrote {svg}")
    if html is not None:
        drawn = page(picture.title, page_map_svg(picture, has_ground=False))
        html.write_text(drawn, encoding="utf-8")
        note(f"wrote {html}")
    if as_json:
        print_json(found.to_arrow().to_pylist())
    elif svg is None and html is None:
        printer = console()
        has_colors = printer.color_system is not None
        width = printer.width if printer.is_terminal else 100
        print_drawing(page_map_text(picture, width, has_colors=has_colors))
    return Exit.DONE


def _explained(
    location: str,
    columns: list[str] | None,
    fragment: int | None,
    version: str | None,
    storage: list[str] | None,
) -> Explanation:
    """Explain a table, or else the data file at its place."""
    try:
        dataset = opened(location, storage, version)
    except DatasetNotFoundError:
        if not location.rstrip("/").endswith(_FILE_SUFFIX) or fragment is not None:
            raise
        store, name = open_object(location, storage_options(storage))
        return explain_file(store.source(name), columns)
    if fragment is None:
        return explain(dataset, columns)
    if fragment not in dataset.fragment_ids():
        raise InvalidInputError(f"--fragment {fragment}: {location} has no such fragment")
    return explain(dataset, columns, fragment_ids=[fragment])


def explain_query(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Location of the table.")],
    columns: Columns = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", "-f", help="A condition in SQL.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", help="Number of rows.")] = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the query, and report its costs.")
    ] = False,
    version: At = None,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Describe how a query is run, the last step first; `--analyze` also runs it."""
    dataset = opened(table, storage, version)
    scanner = dataset.scanner(columns=columns, filter=filter_, limit=limit)
    plan = scanner.analyze_plan() if analyze else scanner.explain_plan()
    print_json({"plan": plan.splitlines()}) if as_json else say(plan)
    return Exit.DONE
