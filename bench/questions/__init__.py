"""One file per question; `QUESTIONS` is in the order of the report."""

from __future__ import annotations

from bench.questions.base import Question, Subject
from bench.questions.memory import MEMORY_QUESTIONS
from bench.questions.scan import Scan
from bench.questions.size import Size
from bench.questions.take import Take
from bench.questions.write import Write

__all__ = ["QUESTIONS", "Question", "Subject"]

QUESTIONS: dict[str, Question] = {
    question.name: question
    for question in (
        Scan(),
        Take(1),
        Take(100),
        Take(1000),
        Write(),
        Size(),
        *MEMORY_QUESTIONS,
    )
}
