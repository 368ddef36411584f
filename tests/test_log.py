"""Messages go where the caller wants them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilum import log


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    logger = logging.getLogger("pilum")
    handlers, level = list(logger.handlers), logger.level
    yield
    for handler in set(logger.handlers) - set(handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(level)


@pytest.mark.parametrize(
    ("value", "level"),
    [
        (None, "INFO"),
        ("", "INFO"),
        ("debug", "DEBUG"),
        ("trace", "DEBUG"),
        ("lance=debug", "INFO"),
        ("lance::io=trace,warning", "WARNING"),
    ],
)
def test_the_level_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, value: str | None, level: str
) -> None:
    monkeypatch.delenv("LANCE_LOG", raising=False)
    if value is not None:
        monkeypatch.setenv("LANCE_LOG", value)
    assert log.get_log_level() == level


def test_messages_are_written_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "messages.log"
    log.set_logger(str(file), level=logging.WARNING, format_string="%(levelname)s %(message)s")
    logging.getLogger("pilum.table").info("too low")
    logging.getLogger("pilum.table").warning("a message")
    assert file.read_text() == "WARNING a message\n"


def test_messages_are_passed_to_a_handler() -> None:
    seen: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.getMessage())

    log.set_logger(log_handler=Handler())
    logging.getLogger("pilum.table").info("a message")
    assert seen == ["a message"]
