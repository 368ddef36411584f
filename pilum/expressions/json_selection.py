"""The functions that select values of JSON documents, by the name of a member or by a path.

    document            {"x": [1, "two"], "y": 3}
    json_get            (j, 'x')                  the document [1, "two"]
    json_extract        (j, '$.x[1]')             its text, '"two"'; several values are an array
    json_exists         (j, '$.z')                false
    json_array_length   (j, '$.x'), (j, '$.y')    2 and 0; null where there is no value
    json_array_contains (j, '$.x', 'two')         true; also for numbers and any JSON text

All are null where the document or the path is. Paths are those of `pilum.expressions.json_path`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pilum import kernels
from pilum.expressions.json_path import Step, parse_path
from pilum.expressions.types import scalar_of

__all__ = [
    "array_contains",
    "array_length",
    "document_buffers",
    "exists",
    "extract",
    "get",
]

Datum = Any
"""The input and output of Arrow kernels: pa.Array or pa.Scalar."""

_Buffers = tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint8] | None]


def document_buffers(documents: pa.Array) -> _Buffers:
    """Return the offsets, bytes and validity of documents, as kernels take them."""
    documents = pa.concat_arrays([documents, documents[:0]])  # without an offset
    validity, offsets, data = documents.buffers()
    ends = np.zeros(1, np.int64)
    if len(documents):
        ends = np.frombuffer(offsets, np.int64)[: len(documents) + 1]
    bitmap = np.frombuffer(validity, np.uint8) if documents.null_count else None
    return ends, np.frombuffer(b"" if data is None else data, np.uint8), bitmap


def get(documents: Datum, member: pa.Scalar) -> Datum:
    """Return a member, or an item of an array, as a document."""
    step = member.as_py()
    if isinstance(documents, pa.Scalar):
        return get(pa.repeat(documents, 1), member)[0]
    if step is None:
        return pa.nulls(len(documents), pa.large_binary())
    if isinstance(step, int):
        return _selected(documents, [[(step, step)]] if step >= 0 else [[(1, 0)]])
    found = _selected(documents, [step])
    if not step.isdecimal():
        return found
    number = int(step)
    return pc.coalesce(found, _selected(documents, [[(number, number)]]))


def _selected(documents: pa.Array, path: list[Any]) -> pa.Array:
    found, ends, data = kernels.json_select(*document_buffers(documents), path)
    mask = pa.py_buffer(np.packbits(found, bitorder="little"))
    buffers = [mask, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(documents), buffers)


def _by_path(name: str, arrow: pa.DataType, apply: Callable[..., pa.Array]) -> Callable[..., Datum]:
    """Return a function of documents, a path and further constants; null where one of them is."""

    def run(documents: Datum, path: pa.Scalar, *others: pa.Scalar) -> Datum:
        if isinstance(documents, pa.Scalar):
            return run(pa.repeat(documents, 1), path, *others)[0]
        if not all(one.is_valid for one in (path, *others)):
            return pa.nulls(len(documents), arrow)
        return apply(documents, parse_path(name, path.as_py()), *others)

    return run


def _exists(documents: pa.Array, path: tuple[Step, ...]) -> pa.Array:
    found = _selected(documents, [*path]).is_valid()
    return _nulled(found, documents)


def _extract(documents: pa.Array, path: tuple[Step, ...]) -> pa.Array:
    found = _selected(documents, [*path])
    ends, data = kernels.decode_json(*document_buffers(found))
    buffers = [found.buffers()[0], pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(found), buffers).cast(pa.string())


def _array_length(documents: pa.Array, path: tuple[Step, ...]) -> pa.Array:
    found = kernels.json_array_lengths(*document_buffers(documents), [*path])
    buffers = [np.packbits(found >= 0, bitorder="little"), found]
    return pa.Array.from_buffers(pa.int64(), len(found), list(map(pa.py_buffer, buffers)))


def _array_contains(documents: pa.Array, path: tuple[Step, ...], wanted: pa.Scalar) -> pa.Array:
    value = wanted.as_py()
    text = value if isinstance(value, str) else _json_text(value)
    found = kernels.json_array_contains(*document_buffers(documents), [*path], text)
    bits = pa.py_buffer(np.packbits(found, bitorder="little"))
    return _nulled(pa.Array.from_buffers(pa.bool_(), len(found), [None, bits]), documents)


def _json_text(value: Any) -> str:
    """Return the text of a number or boolean as JSON documents give it."""
    text = json.dumps(value, default=str).encode()
    ends = np.array([0, len(text)], np.int64)
    binary = kernels.encode_json(ends, np.frombuffer(text, np.uint8), None)
    _, data = kernels.decode_json(*binary, None)
    return data.tobytes().decode()


def _nulled(found: pa.Array, documents: pa.Array) -> pa.Array:
    return pc.if_else(documents.is_valid(), found, scalar_of(None, pa.bool_()))


exists = _by_path("json_exists", pa.bool_(), _exists)
extract = _by_path("json_extract", pa.string(), _extract)
array_length = _by_path("json_array_length", pa.int64(), _array_length)
array_contains = _by_path("json_array_contains", pa.bool_(), _array_contains)
