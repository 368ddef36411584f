"""The command line of `pilum`: arguments, and the handling of errors."""

from __future__ import annotations

import logging
import signal
import sys
from argparse import ArgumentParser, _MutuallyExclusiveGroup
from collections.abc import Sequence
from types import FrameType

from pilum.cli import tables
from pilum.cli.jobs import KINDS, merge_clauses, read_job, run_job
from pilum.cli.outcome import Exit, TerminatedError, exit_code

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code (see `pilum.cli.outcome`)."""
    parser = _parser()
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("pilum").setLevel(logging.INFO)
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        return int(_run(given))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:
        code = exit_code(error)
        hint = " (try again)" if code is Exit.AGAIN else ""
        print(f"pilum: {type(error).__name__}: {error}{hint}", file=sys.stderr)
        return int(code)
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(given: object) -> Exit:
    command = given.command  # type: ignore[attr-defined]
    if command != "job":
        return getattr(tables, command)(given)  # type: ignore[no-any-return]
    return _job(given.kind, given.file, given.master, given.remote, given.check)  # type: ignore[attr-defined]


def _job(kind: str, file: str, master: str | None, remote: str | None, check: bool) -> Exit:
    spec = read_job(file, kind)
    if check:
        merge_clauses(spec.arguments)
        return Exit.DONE
    return run_job(spec, master, remote)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise TerminatedError("the process was asked to end; what was committed stays")


def _parser() -> ArgumentParser:
    parser = ArgumentParser("pilum", description=__doc__ and "Lance tables and their jobs.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("info", "rows, fragments, bytes and columns"),
        ("versions", "all versions with their times"),
        ("verify", "look for missing and damaged files"),
        ("repair", "say how to go back where the newest version is damaged, and do it"),
        ("compact", "write small fragments together"),
        ("cleanup", "remove old versions"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("path", help="location of the table")
        if name == "verify":
            command.add_argument("--deep", action="store_true", help="decode all pages, too")
        if name == "compact":
            command.add_argument("--target-rows", type=int, help="rows per fragment")
        if name == "cleanup":
            command.add_argument("--older-than-days", type=float, default=14)
            command.add_argument("--dry-run", action="store_true", help="only say what would go")
            command.add_argument(
                "--delete-unverified",
                action="store_true",
                help="remove files that no version refers to at any age; only while no one writes",
            )
        if name == "repair":
            _add_repairs(command.add_mutually_exclusive_group())
    _add_job(commands.add_parser("job", help="run a job of Spark that a file describes"))
    return parser


def _add_repairs(way: _MutuallyExclusiveGroup) -> None:
    way.add_argument("--dry-run", action="store_true", help="only explain, as without any option")
    way.add_argument("--restore", action="store_true", help="commit the newest whole version again")
    way.add_argument(
        "--set-aside", action="store_true", help="rename the manifests of damaged versions"
    )


def _add_job(command: ArgumentParser) -> None:
    command.add_argument("kind", choices=list(KINDS))
    command.add_argument("--file", required=True, help="the job file, in TOML")
    command.add_argument("--check", action="store_true", help="only read the file")
    where = command.add_mutually_exclusive_group()
    where.add_argument("--master", help="master of a classic session; local[*] by default")
    where.add_argument("--remote", help="URL of a Spark Connect server, sc://host:port")
