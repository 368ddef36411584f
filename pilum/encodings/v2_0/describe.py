"""Describe a page of version 2.0 in words."""

from __future__ import annotations

from pilum.encodings.describe import PageDescription
from pilum.encodings.notation import encoding_text
from pilum.format.pb import encodings20_pb2 as pb

__all__ = ["describe_array"]


def describe_array(encoding: pb.ArrayEncoding, num_items: int) -> PageDescription:
    """Describe a page in words, with nulls and dictionaries apart from the values."""
    values, nulls = _without_nulls(encoding)
    dictionary = ""
    if values is not None and values.HasField("dictionary"):
        found = values.dictionary
        dictionary = f"{found.num_dictionary_items} values as {encoding_text(found.items)}"
        values = found.indices
    text = "no value" if values is None else encoding_text(values)
    return PageDescription("array", text, num_items, dictionary, nulls)


def _without_nulls(encoding: pb.ArrayEncoding) -> tuple[pb.ArrayEncoding | None, str]:
    if not encoding.HasField("nullable"):
        return encoding, ""
    found = encoding.nullable
    if found.HasField("all_nulls"):
        return None, ""
    if found.HasField("some_nulls"):
        return found.some_nulls.values, f"validity {encoding_text(found.some_nulls.validity)}"
    return found.no_nulls.values, ""
