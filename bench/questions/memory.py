"""How much memory does a library need at its peak, beyond what was there before?

Each answer comes from a fresh process, which holds one library and (to write) the table:

    python -m bench.questions.memory PEER scan|write|stream SHAPE ROWS PATH

It prints the peak of the resident size during the work minus the size just before, in bytes.
Scans are read as a stream, one batch at a time, as somebody with little memory would. A streamed
write gets batches that are drawn one after the other, and handed on through Arrow's C interface.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pyarrow as pa

from bench.peers import PEERS
from bench.questions.base import Question, Subject, same
from bench.questions.write import remove
from bench.shapes import SHAPES, Shape

__all__ = ["MEMORY_QUESTIONS", "Memory"]

Verb = Literal["scan", "write", "stream"]
_BATCH_BYTES = 4 << 20
_STREAMED = 4  # times the rows of the table


class Memory(Question):
    """Peak memory of one verb."""

    unit = "bytes"
    rounds = 0
    in_all_versions = False
    shapes = frozenset({"vector 768", "long text", "mixed table"})

    def __init__(self, verb: Verb, shapes: frozenset[str] = shapes) -> None:
        self.name = f"{verb} memory"
        self.verb = verb
        self.shapes = shapes

    def check(self, subject: Subject) -> bool:
        if self.verb != "stream":
            return True  # the values were compared by the question of the same verb
        peer, path = subject.peer, subject.scratch / "checked"
        try:
            peer.write_stream(subject.table.to_reader(), path)
            return same(peer.scan(peer.open(path)), subject.table)
        finally:
            remove(path)

    def measure(self, subject: Subject, round_number: int) -> float:
        path = subject.path if self.verb == "scan" else subject.scratch / "memory"
        rows = subject.table.num_rows * subject.shape.one_in
        rows *= _STREAMED if self.verb == "stream" else 1
        arguments = [subject.peer.name, self.verb, subject.shape.name, str(rows), str(path)]
        try:
            answer = subprocess.run(
                [sys.executable, "-m", "bench.questions.memory", *arguments],
                check=True,
                capture_output=True,
                text=True,
                cwd=Path(__file__).parents[2],
            )
        finally:
            if self.verb != "scan":
                remove(path)
        return float(answer.stdout.split()[-1])


def work_and_print(name: str, verb: str, shape: str, rows: int, path: Path) -> None:
    """The child: does the work once and prints its peak, bytes."""
    peer = PEERS[name]()
    if verb == "write":
        table = SHAPES[shape].table(rows)
        before = mark_peak()
        peer.write(table, path)
    elif verb == "stream":
        reader = stream(SHAPES[shape], rows)
        before = mark_peak()
        peer.write_stream(reader, path)
    else:
        before = mark_peak()
        deque(peer.batches(peer.open(path)), maxlen=0)
    print(max(0, peak() - before))


def stream(shape: Shape, rows: int) -> pa.RecordBatchReader:
    """Draw `rows` rows, of which few are in memory at once."""
    sample = shape.table(100 * shape.one_in)
    per_batch = max(1, _BATCH_BYTES * sample.num_rows // sample.nbytes)

    def batches() -> Iterator[pa.RecordBatch]:
        left, seed = rows // shape.one_in, 0
        while left > 0:
            number = min(left, per_batch)
            yield shape.table(number * shape.one_in, seed).combine_chunks().to_batches()[0]
            left, seed = left - number, seed + 1

    return pa.RecordBatchReader.from_batches(sample.schema, batches())


def mark_peak() -> int:
    """Sets the mark of the highest resident size back, where Linux lets us; the size now."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except OSError:
        return peak()


def peak() -> int:
    try:
        return _status("VmHWM")
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {key}")


MEMORY_QUESTIONS = (
    Memory("scan"),
    Memory("write"),
    Memory("stream", frozenset({"mixed table", "documents"})),
)

if __name__ == "__main__":
    name, verb, shape, rows, path = sys.argv[1:]
    work_and_print(name, verb, shape, int(rows), Path(path))
