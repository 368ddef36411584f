"""The messages of this library: their level, and a file or handler that receives them."""

from __future__ import annotations

import logging
import os

__all__ = ["ENV_NAME_PYLANCE_LOGGING_LEVEL", "get_log_level", "get_python_log_level", "set_logger"]

ENV_NAME_PYLANCE_LOGGING_LEVEL = "LANCE_LOG"
"""The environment variable with the level, such as "debug" or "info,lance::io=trace"."""
LOGGER = logging.getLogger("pilum")

_FORMAT = "%(asctime)s %(name)s [%(levelname)s] %(filename)s:%(lineno)d %(funcName)s : %(message)s"


def get_python_log_level(rust_log_level: str) -> str:
    """Return the level of Python for one of Rust: "trace" becomes "DEBUG", others stay."""
    return "DEBUG" if rust_log_level.lower() == "trace" else rust_log_level


def get_log_level() -> str:
    """Return the level that `LANCE_LOG` requests for all parts of the library; else "INFO"."""
    entries = os.environ.get(ENV_NAME_PYLANCE_LOGGING_LEVEL, "").upper().split(",")
    general = [entry for entry in entries if entry and "=" not in entry]
    return get_python_log_level(general[0]) if general else "INFO"


def set_logger(
    file_path: str | None = "pilum.log",
    name: str = "pilum",
    level: int = logging.INFO,
    format_string: str | None = None,
    log_handler: logging.Handler | None = None,
) -> None:
    """Write the messages of this library to a file, or pass them to a handler.

    Args:
        file_path: The file, which is appended to.
        name: Name of the logger; that of the library by default.
        level: Messages below this level are dropped.
        format_string: The form of a message, as in `logging.Formatter`.
        log_handler: A handler that receives the messages instead of a file.
    """
    global LOGGER
    LOGGER = logging.getLogger(name)
    LOGGER.setLevel(level)
    handler = log_handler or logging.FileHandler(file_path or "pilum.log")
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter(format_string or _FORMAT))
    LOGGER.addHandler(handler)
