"""The command `pilum job`: runs a Spark job that a file describes."""

from __future__ import annotations

from typing import Annotated

import typer

from pilum.cli.jobs import KINDS, merge_clauses, read_job, run_job
from pilum.cli.outcome import Exit

__all__ = ["job"]


def _kinds(begun: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(begun)]


def job(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", autocompletion=_kinds, help=f"One of {', '.join(KINDS)}."),
    ],
    file: Annotated[str, typer.Option("--file", help="The job file, in TOML.")],
    check: Annotated[bool, typer.Option("--check", help="Only check the file.")] = False,
    master: Annotated[
        str | None, typer.Option("--master", help="Master of a classic session; local by default.")
    ] = None,
    remote: Annotated[
        str | None,
        typer.Option("--remote", help="URL of a Spark Connect server, sc://host:port."),
    ] = None,
) -> Exit:
    """Run a Spark job that a file describes, and print its result as one line of JSON."""
    if kind not in KINDS:
        raise typer.BadParameter(f"{kind!r} is not one of {', '.join(KINDS)}")
    if master is not None and remote is not None:
        raise typer.BadParameter("pass --master or --remote, not both")
    spec = read_job(file, kind)
    if check:
        merge_clauses(spec.arguments)
        return Exit.DONE
    return run_job(spec, master, remote)
