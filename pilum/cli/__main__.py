"""The entry point of `python -m pilum.cli`, for use where the command is not installed."""

from __future__ import annotations

import sys

from pilum.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
