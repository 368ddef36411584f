#!/usr/bin/env python3
"""Writes docs/checklist.md: what the format asks for, and which tests hold it.

A test holds a line if it names its id: by `@pytest.mark.checklist("S4.7")`, in its docstring or in
a comment of it. An id in the docstring of a module stands for all of its tests.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["LINES", "PAGE", "holders", "page_of"]

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "checklist.md"
_ID = re.compile(r"\bS[0-4]\.\d+\b")

LINES = {
    "S0.1": "The 40 bytes at the end of a file, its three tables, alignment to 64 or 4,096 bytes",
    "S0.2": "Metadata of columns: their own encoding and buffers, first row of each page",
    "S0.3": "Names of versions, their aliases, and the version that a manifest records",
    "S0.4": "Encodings of 2.0: structs, lists, values, binary, dictionaries, packed structs, FSST",
    "S0.5": "Dictionaries whose values are lists are refused",
    "S1.1": "Pages of about 8 MiB that end at any row and are read in part",
    "S1.2": "Columns with different numbers of pages",
    "S1.3": "Buffers between pages; global buffers, written and read by number",
    "S1.4": "Opening in one or two requests; metadata of single columns",
    "S1.5": "Reading a file from front to back",
    "S1.6": "A container that does not depend on types",
    "S2.1": "The folders of a table, and every field of a manifest",
    "S2.2": "Feature flags of readers and writers; unknown ones are refused",
    "S2.3": "Fragments of several files, columns by field id and number",
    "S2.4": "Columns that are in no file of a fragment are null",
    "S2.5": "0.1 files: page table, offsets of batches, manifest inside, plain, binary, dictionary",
    "S2.6": "Append, overwrite and new columns touch metadata only",
    "S2.7": "Deletion files in both forms, in scans and in searches",
    "S2.8": "Commits are atomic, in file systems and object stores",
    "S2.9": "Transaction files, retries, and commits whose outcome is unknown",
    "S2.10": "A store of manifests outside of the table",
    "S2.11": "Statistics of pages of 0.1 files, and what may not be concluded from them",
    "S2.12": "Row ids that stay when rows move",
    "S3.1": "Tables with `_latest.manifest` and manifests by plain version number",
    "S3.2": "Everything of the newer edition but stable row ids",
    "S4.1": "Mini-block pages: sizes of chunks, padding, repetition index",
    "S4.2": "Full-zip pages: control words, repetition index, one or two requests for a value",
    "S4.3": "Pages of nulls alone, with levels",
    "S4.4": "Blob pages: values elsewhere in the file, nulls in their descriptions",
    "S4.5": "Repetition and definition levels",
    "S4.6": "Dictionaries of pages",
    "S4.7": "Packed structs",
    "S4.8": "Fixed-size lists, flattened, with validity of items",
    "S4.9": "Flat, variable, constant, bitpacking, FSST, runs, split streams, LZ4 and zstd",
    "S4.10": "Every key of field metadata that steers the writer, and its default",
    "S4.11": "Metadata of pages that readers fetch first is cached, unless only a scan needs it",
}
"""What each id asks for, in one line."""

_HEAD = """\
# Checklist

Written by `make checklist`; a test checks that it is up to date. The lines are what the five first
documents of the format require: S0 and S1 the container, S2 and S3 tables and files of version 0.1,
S4 the encodings of 2.1. The tests that name a line check it.
"""


def holders(folder: Path = ROOT / "tests") -> Mapping[str, list[str]]:
    """Names of the tests that hold each id, sorted."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in sorted(folder.rglob("test_*.py")):
        for name, text in _tests(file.read_text()):
            for line in _ID.findall(text):
                found[line].add(f"{file.relative_to(folder)}::{name}".removesuffix("::"))
    return {line: sorted(names) for line, names in found.items()}


def _tests(source: str) -> Iterator[tuple[str, str]]:
    """Name and text of each test; the module as a whole is a test without name."""
    tree, lines = ast.parse(source), source.splitlines()
    yield "", ast.get_docstring(tree) or ""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
            while first > 1 and lines[first - 2].startswith("#"):
                first -= 1
            yield node.name, "\n".join(lines[first - 1 : node.end_lineno])


def page_of(held: Mapping[str, list[str]]) -> str:
    """The page, in Markdown."""
    rows = [_HEAD, "| Id | What | Tests |", "|---|---|---|"]
    rows += [f"| {line} | {what} | {_count(held, line)} |" for line, what in LINES.items()]
    for line, what in LINES.items():
        if line in held:
            rows += ["", f"## {line}", "", f"{what}.", "", *_by_file(held[line])]
    return "\n".join(rows) + "\n"


def _count(held: Mapping[str, list[str]], line: str) -> str:
    return f"[{len(held[line])}](#{line.lower().replace('.', '')})" if line in held else "none yet"


def _by_file(names: list[str]) -> list[str]:
    files: dict[str, list[str]] = defaultdict(list)
    for name in names:
        file, _, test = name.partition("::")
        files[file].append(f"`{test.removeprefix('test_')}`" if test else "all")
    return [f"- `tests/{file}`: {', '.join(tests)}" for file, tests in files.items()]


if __name__ == "__main__":
    PAGE.write_text(page_of(holders()))
