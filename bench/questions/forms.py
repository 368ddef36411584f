"""How long until all values are in memory in a form of strings that the caller asks for?

A library that does not return this form is charged for converting what it returns.
"""

from __future__ import annotations

import pyarrow.types as pt

from bench.questions.base import Question, Subject, same, timed

__all__ = ["FORM_QUESTIONS", "ScanInForm"]


class ScanInForm(Question):
    """Open, read everything, with strings as views or as dictionaries."""

    in_all_versions = False

    def __init__(self, form: str, shapes: frozenset[str]) -> None:
        self.name = f"scan as {form}"
        self.shapes = shapes
        self._form = form

    def check(self, subject: Subject) -> bool:
        found = subject.peer.scan_in_form(subject.handle, self._form)
        return not any(map(pt.is_string, found.schema.types)) and same(found, subject.table)

    def measure(self, subject: Subject, round_number: int) -> float:
        peer = subject.peer
        return timed(lambda: peer.scan_in_form(peer.open(subject.path), self._form))[0]


FORM_QUESTIONS: tuple[Question, ...] = (
    ScanInForm("views", frozenset({"short text", "long text", "few strings"})),
    ScanInForm("dictionaries", frozenset({"few strings"})),
)
