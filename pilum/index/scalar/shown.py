"""Values as the statistics of indices show them, by the reference's forms."""

from __future__ import annotations

from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum.expressions.types import is_binary, is_text

__all__ = ["shown"]


def shown(value: pa.Scalar) -> str:
    """Return a value as text: `NULL`, `true`, `1.5`, `NaN`, `6162FF`, `Some(120),10,2`."""
    kind = value.type
    if not value.is_valid:
        return "NULL"
    if pt.is_boolean(kind):
        return "true" if value.as_py() else "false"
    if pt.is_floating(kind):
        return _float(value.as_py(), kind)
    if is_binary(kind):
        return str(value.as_py().hex().upper())
    if pt.is_decimal(kind):
        digits = int(value.as_py().scaleb(kind.scale, Context(prec=kind.precision)))
        return f"Some({digits}),{kind.precision},{kind.scale}"
    if is_text(kind):
        data: bytes = value.as_buffer().to_pybytes()
        return data.decode(errors="replace")  # it may be damaged
    if pt.is_date(kind):
        return _date(value)
    return str(value.as_py() if pt.is_integer(kind) else value.value)


def _date(value: pa.Scalar) -> str:
    try:
        return str(value.as_py())
    except (ValueError, OverflowError):  # after the year 9999, or before the year 1
        return str(value.value)


def _float(value: Any, kind: pa.DataType) -> str:
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "inf" if value > 0 else "-inf"
    number: Any = np.dtype(f"f{kind.bit_width // 8}").type(value)
    return np.format_float_positional(number, trim="-")
