"""The entry point of `python -m pilum`: the command line, where `pilum` is not on the path."""

from __future__ import annotations

import sys

from pilum.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
