"""Values in statistics: every value has a text, also those that Python cannot represent."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from pilum.index.scalar.shown import shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pa.scalar(None, pa.string()), "NULL"),
        (pa.scalar("ä"), "ä"),
        (pa.scalar(b"\xff", pa.binary()).cast(pa.string(), safe=False), "\ufffd"),
        (pa.scalar(date(2020, 1, 2)), "2020-01-02"),
        (pa.scalar(2**31 - 1, pa.int32()).cast(pa.date32()), "2147483647"),
        (pa.scalar(True), "true"),
        (pa.scalar(-7, pa.int8()), "-7"),
        (pa.scalar(b"a\xff"), "61FF"),
        (pa.scalar(1.5), "1.5"),
        (pa.scalar(Decimal("9" * 38), pa.decimal128(38, 0)), f"Some({'9' * 38}),38,0"),
    ],
)
def test_values_have_texts(value: pa.Scalar, text: str) -> None:
    assert shown(value) == text
