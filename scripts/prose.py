#!/usr/bin/env python3
"""Check that docstrings, comments, texts and pages use plain words, as CONTRIBUTING.md asks.

    scripts/prose.py [FILE...]    without files: all of pilum, the pages of docs, the README

Checked are words to avoid, in everything that people read, and the form of docstrings. Code is not:
names, doctests, fenced blocks and what is in backticks. Prints one line per finding and fails if
there is any.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["WORDS", "check_page", "check_python", "findings"]

ROOT = Path(__file__).resolve().parents[1]
GENERATED = {"docs/api.md", "docs/checklist.md", "docs/format/matrix.md", "pilum/format/pb"}
WORD_TABLE = "## Words to avoid"
"""The heading below which the words themselves are listed."""

_THING = "(?:file|page|range|column|fragment|chunk|buffer|table|manifest|version|zone|footer)s?"
_NO_VERB = re.compile(
    "of|what|how|which|who|whose|where|when|why|that|for|with|without|from|in|on|at|by|if|as|to|no|"
    "it|its|they|their"
)
_NO_VERB_OF_FUNCTION = re.compile("an?|the|one|some|any|all|each|every|whether|this|these")

WORDS = {
    r"behind": "after",
    r"stands?|standing|stood": "is, lies at, is stored at",
    r"nobody|no-one": "no one, nothing",
    r"tells?|told|telling": "reports, says",
    r"anew": "again, or rewrite the verb: rewritten",
    r"meanwhile": "concurrently",
    r"neighbou?rs?|neighbou?ring": "adjacent",
    rf"{_THING} (?:that |which )?(?:holds?|held)": "covers, contains",
    r"who (?:wants?|asks?)|those who|whoever": "the caller, the reader",
    r"(?:is|are|was|were) wanted": "is requested, is read",
    r"(?:believes?|knows|knew)": "stores, uses, is unknown",
    r"(?:makes?|made) no sense": "is invalid",
    r"interfered?s?|interfering": "commit concurrently",
    r"(?:near|beside) each other": "close together",
}
"""What to avoid, as a pattern of whole words, and what to write instead."""

_WORDS = [(re.compile(rf"\b(?:{words})\b(?!-)", re.IGNORECASE), WORDS[words]) for words in WORDS]
_CODE = re.compile(r"``.*?``|`[^`\n]*`|https?://\S+")
_DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

Finding = tuple[int, str]
"""The line of a finding, and what is wrong there."""


def check_words(text: str, line: int) -> Iterator[Finding]:
    """Yield the words to avoid in a text that begins at a line."""
    text = _CODE.sub(lambda code: re.sub(r"[^\n]", "_", code[0]), text)
    for pattern, advice in _WORDS:
        for match in pattern.finditer(re.sub(r"[\n ]", " ", text)):
            at = line + text.count("\n", 0, match.start())
            yield at, f"avoid {match[0].lower()!r}; write: {advice}"


def check_python(source: str) -> Iterator[Finding]:
    """Yield the findings in the docstrings, comments and texts of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from check_words(token.string, token.start[0])
    tree = ast.parse(source)
    within_text = set()
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS) and (text := ast.get_docstring(node)):
            yield from (
                (node.body[0].lineno, f"docstring of {getattr(node, 'name', 'the module')}: {why}")
                for why in check_form(text, _kind(node))
            )
        if isinstance(node, ast.JoinedStr):
            within_text |= {id(part) for part in node.values}
            yield from check_words(_without_values(node), node.lineno)
        elif isinstance(node, ast.Constant) and id(node) not in within_text:
            text = node.value if isinstance(node.value, str) else ""
            if " " in text:
                yield from check_words(_without_doctests(text), node.lineno)


def check_form(docstring: str, kind: str) -> Iterator[str]:
    """Yield what is wrong with the form of a docstring.

    Args:
        docstring: The docstring, without indentation.
        kind: Of what it is: "module", "class", "property" or "function".
    """
    summary = docstring.split("\n\n")[0]
    words = re.findall(r"[\w`'-]+", summary)
    if not summary.rstrip().endswith((".", ":", "|", "::")):
        yield "the first sentence has no period"
    if len(words) < 2:
        yield "a sentence is needed"
    first = words[0].lower() if words else ""
    if _NO_VERB.fullmatch(first):
        yield f"begins with {words[0]!r}, not with a verb or with the name of the thing"
    if kind == "function" and _NO_VERB_OF_FUNCTION.fullmatch(first):
        yield f"begins with {words[0]!r}, not with a verb"


def check_page(text: str) -> Iterator[Finding]:
    """Yield the words to avoid in a page, but not in its code and its list of such words."""
    kept, in_code = [], False
    for line in text.partition(WORD_TABLE)[0].splitlines():
        is_fence = line.lstrip().startswith("```")
        kept.append("" if in_code or is_fence else line)
        in_code ^= is_fence
    yield from check_words("\n".join(kept), 1)


def findings(files: Iterable[Path]) -> Iterator[str]:
    """Yield all findings as `path:line: text`."""
    for file in files:
        check = check_python if file.suffix == ".py" else check_page
        for line, what in sorted(set(check(file.read_text(encoding="utf-8")))):
            yield f"{file.relative_to(ROOT)}:{line}: {what}"


def all_files() -> list[Path]:
    """Return the modules of pilum and all pages, except those that are generated."""
    found = [*ROOT.glob("pilum/**/*.py"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]
    return sorted(
        file
        for file in found
        if GENERATED.isdisjoint({str(file.relative_to(ROOT)), str(file.parent.relative_to(ROOT))})
    )


def _kind(node: ast.AST) -> str:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return "class" if isinstance(node, ast.ClassDef) else "module"
    is_property = any("property" in ast.unparse(one) for one in node.decorator_list)
    return "property" if is_property else "function"


def _without_values(node: ast.JoinedStr) -> str:
    parts = [one.value if isinstance(one, ast.Constant) else "_" for one in node.values]
    return "".join(map(str, parts))


def _without_doctests(text: str) -> str:
    return re.sub(r"^ *(>>>|\.\.\.) .*$", "", text, flags=re.MULTILINE)


if __name__ == "__main__":
    found = list(findings([Path(name).resolve() for name in sys.argv[1:]] or all_files()))
    print("\n".join([*found, f"prose: {len(found)} findings"]))
    sys.exit(bool(found))
