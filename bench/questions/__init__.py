"""One file per question; `QUESTIONS` is in the order of the report."""

from __future__ import annotations

from bench.questions.base import Question, Subject
from bench.questions.cold import ColdScan, ColdTake
from bench.questions.filter import FILTER_QUESTIONS
from bench.questions.forms import FORM_QUESTIONS
from bench.questions.memory import MEMORY_QUESTIONS
from bench.questions.one_core import ScanOnOneCore
from bench.questions.opening import Open
from bench.questions.order import ORDER_QUESTIONS
from bench.questions.patterns import PATTERN_QUESTIONS
from bench.questions.scan import Scan, ScanInBatches
from bench.questions.size import Size, SmallSize
from bench.questions.take import Take
from bench.questions.write import Write, WriteWithoutSync

__all__ = ["QUESTIONS", "Question", "Subject"]

QUESTIONS: dict[str, Question] = {
    question.full_name: question
    for question in (
        Scan(),
        ScanInBatches(),
        ScanOnOneCore(),
        *FORM_QUESTIONS,
        Take(1),
        Take(100),
        Take(1000),
        *PATTERN_QUESTIONS,
        *FILTER_QUESTIONS,
        *ORDER_QUESTIONS,
        Write(),
        WriteWithoutSync(),
        Size(),
        SmallSize(),
        Open(),
        ColdScan(),
        ColdTake(100),
        *MEMORY_QUESTIONS,
    )
}
