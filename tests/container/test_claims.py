"""Files whose descriptions claim more rows than any file has, at the cost of no byte."""

from __future__ import annotations

import pyarrow as pa
import pytest
from container.files import MemorySource, write_table
from fuzz.parts import FileParts

from pilum.container.frame import MAX_ROWS, require_countable
from pilum.container.open import open_file
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.version import FileVersion


@pytest.mark.parametrize("version", [FileVersion.V2_1, FileVersion.V2_2])
@pytest.mark.parametrize("claim", [MAX_ROWS, 2**33, 2**40 - 1, 2**40, 2**63])
@pytest.mark.parametrize(
    "column", [pa.nulls(4, pa.int32()), pa.array([7] * 4), pa.array(["x"] * 4)]
)
def test_a_page_of_one_value_cannot_claim_any_number_of_rows(
    version: FileVersion, claim: int, column: pa.Array
) -> None:
    parts = FileParts.parse(write_table(pa.table({"a": column}), version=version)[0])
    assert parts is not None
    parts.descriptor.length = parts.columns[0].pages[0].length = claim
    with pytest.raises(CorruptFileError, match=f"rows: {claim}; a file has fewer"):
        open_file(MemorySource(parts.build()))


def test_no_writer_goes_beyond_what_readers_take() -> None:
    require_countable(MAX_ROWS - 1)
    with pytest.raises(InvalidInputError, match="at most 4294967295"):
        require_countable(MAX_ROWS)
