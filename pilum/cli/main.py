"""The command line of `pilum`: arguments, and the handling of errors."""

from __future__ import annotations

import logging
import signal
import sys
from argparse import ArgumentParser, Namespace, _MutuallyExclusiveGroup
from collections.abc import Callable, Sequence
from types import FrameType

from pilum.cli import tables
from pilum.cli.indices import add_index_commands, run_index_command
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


def _run(given: Namespace) -> Exit:
    if given.command == "index":
        return run_index_command(given)
    if given.command != "job":
        command: Callable[[Namespace], Exit] = getattr(tables, given.command)
        return command(given)
    spec = read_job(given.file, given.kind)
    if given.check:
        merge_clauses(spec.arguments)
        return Exit.DONE
    return run_job(spec, given.master, given.remote)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise TerminatedError("the process was asked to end; what was committed stays")


def _parser() -> ArgumentParser:
    parser = ArgumentParser("pilum", description="Lance tables and their jobs.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("info", "rows, fragments, bytes and columns"),
        ("versions", "all versions with their times"),
        ("verify", "report missing and damaged files"),
        ("repair", "report damaged versions, and return to an undamaged one on request"),
        ("compact", "compact small fragments into larger ones"),
        ("cleanup", "remove old versions"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("path", help="location of the table")
        if name == "verify":
            command.add_argument("--deep", action="store_true", help="also decode all pages")
        if name == "compact":
            command.add_argument("--target-rows", type=int, help="rows per fragment")
        if name == "cleanup":
            command.add_argument("--older-than-days", type=float, default=14)
            command.add_argument(
                "--dry-run", action="store_true", help="only report what would be removed"
            )
            command.add_argument(
                "--delete-unverified",
                action="store_true",
                help="remove files that no version refers to at any age; only while no one writes",
            )
        if name == "repair":
            _add_repairs(command.add_mutually_exclusive_group())
    text = "list, create, optimize, drop and show indices"
    add_index_commands(commands.add_parser("index", help=text, description=text))
    _add_job(commands.add_parser("job", help="run a Spark job that a file describes"))
    return parser


def _add_repairs(way: _MutuallyExclusiveGroup) -> None:
    way.add_argument("--dry-run", action="store_true", help="only report, as without any option")
    way.add_argument("--restore", action="store_true", help="commit the newest whole version again")
    way.add_argument(
        "--set-aside", action="store_true", help="rename the manifests of damaged versions"
    )


def _add_job(command: ArgumentParser) -> None:
    command.add_argument("kind", choices=list(KINDS))
    command.add_argument("--file", required=True, help="the job file, in TOML")
    command.add_argument("--check", action="store_true", help="only check the file")
    where = command.add_mutually_exclusive_group()
    where.add_argument("--master", help="master of a classic session; local[*] by default")
    where.add_argument("--remote", help="URL of a Spark Connect server, sc://host:port")
