"""The entry of the command line: runs one command, and turns errors into exit codes."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from types import FrameType

from pilum.cli.outcome import Exit, TerminatedError, exit_code

__all__ = ["main"]

_PACKAGES = ("typer", "rich")
_SIGPIPE = 13
"""Number of the signal by which other programs end when no one reads their output."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code (see `pilum.cli.outcome`)."""
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        names = " and ".join(missing)
        print(f"pilum: the command line needs {names}: pip install 'pilum[cli]'", file=sys.stderr)
        return int(Exit.FAILED)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("pilum").setLevel(logging.INFO)
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        return _run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(arguments: list[str]) -> int:
    import typer

    from pilum.cli.app import app
    from pilum.cli.output import note

    try:
        code = int(app(arguments, prog_name="pilum", standalone_mode=False) or Exit.DONE)
        sys.stdout.flush()
    except typer.TyperException as error:
        # Its classes for mistakes in arguments, which typer does not export, print the usage too.
        show = getattr(error, "show", None)
        print(error, file=sys.stderr) if show is None else show()
        return int(Exit.USAGE)
    except typer.Abort:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return _without_reader()
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):
            return _without_reader()
        raise
    except Exception as error:
        code = int(exit_code(error))
        hint = " (try again)" if code == Exit.AGAIN else ""
        note(f"{type(error).__name__}: {error}{hint}")
    return code


def _without_reader() -> int:
    """Discard what is still buffered, because `| head` has ended."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + _SIGPIPE


def _terminate(number: int, frame: FrameType | None) -> None:
    raise TerminatedError("the process was asked to end; what was committed stays")
