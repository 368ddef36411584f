"""Models of pydantic become schemas of tables."""

from __future__ import annotations

from datetime import date, datetime
from enum import Enum
from pathlib import Path
from typing import Any, List, Optional, Union  # noqa: UP035  # both forms of annotations are read

import pyarrow as pa
import pytest

pydantic: Any = pytest.importorskip("pydantic", reason="pydantic is not installed")
lance: Any = pytest.importorskip("lance.pydantic", reason="the reference is not installed")

import pilum  # noqa: E402
from pilum import pydantic as ours  # noqa: E402
from pilum.errors import InvalidInputError, UnsupportedTypeError  # noqa: E402


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1


class Mixed(Enum):
    ONE = 1
    TWO = "two"


class Inner(pydantic.BaseModel):  # type: ignore[misc]
    x: int
    y: Optional[str]  # noqa: UP045


def model(module: Any) -> Any:
    fields: dict[str, Any] = {
        "a": int,
        "b": float | None,
        "c": Optional[bool],  # noqa: UP045
        "d": Union[str, None],  # noqa: UP007
        "e": bytes,
        "f": date,
        "g": datetime,
        "h": List[int],  # noqa: UP006
        "i": list[Optional[str]],  # noqa: UP045
        "j": Inner,
        "k": list[Inner] | None,
        "l": Color,
        "m": Level,
        "n": Mixed,
        "o": module.Vector(4),
        "p": module.Vector(2, pa.float16(), False),
        "q": module.MultiVector(3),
        "r": list[list[float]],
        "t": tuple[int, ...],
    }
    zoned = (datetime, pydantic.Field(json_schema_extra={"tz": "UTC"}))
    return pydantic.create_model("Model", **{n: (k, ...) for n, k in fields.items()}, s=zoned)


def test_schemas_are_those_of_the_reference() -> None:
    expected = lance.pydantic_to_schema(model(lance))
    found = ours.pydantic_to_schema(model(ours))
    assert [str(field) for field in found] == [str(field) for field in expected]
    assert found == expected


def test_vectors_are_checked() -> None:
    made = pydantic.create_model("Made", v=(ours.Vector(2), ...), m=(ours.MultiVector(1), ...))
    value = made(v=[1, 2], m=[[1], [2], [3]])
    assert value.v == [1.0, 2.0]
    assert ours.get_extras(made.model_fields["v"], "tz") is None
    assert ours.is_nullable(made.model_fields["v"])
    with pytest.raises(pydantic.ValidationError):
        made(v=[1], m=[])


@pytest.mark.parametrize("kind", [list, dict[str, int], complex, int | str])
def test_other_types_are_refused(kind: Any) -> None:
    with pytest.raises(UnsupportedTypeError, match="field 'a'"):
        ours.pydantic_to_schema(pydantic.create_model("Other", a=(kind, ...)))


class TwoColors(pydantic.BaseModel):  # type: ignore[misc]
    first: Color
    second: Optional[Color] = None  # noqa: UP045
    vector: ours.Vector(2) = None  # type: ignore[valid-type]


def test_instances_become_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [TwoColors(first="red", vector=[1, 2]), TwoColors(first="blue")]
    dataset = pilum.LanceDataset.from_pydantic_model(TwoColors, rows)
    assert (tmp_path / "two_colors").is_dir()
    found = dataset.to_table()
    assert found["first"].to_pylist() == ["red", "blue"]
    assert found["second"].to_pylist() == [None, None]
    assert found["vector"].to_pylist() == [[1, 2], None]
    again = pilum.LanceDataset.from_pydantic_model(TwoColors, rows, dataset.uri, "append")
    assert again.count_rows() == 4
    with pytest.raises(InvalidInputError, match="TwoColors"):
        pilum.LanceDataset.from_pydantic_model(TwoColors, [1])
