"""The parts of a table as text: schema, manifest, fragments and transactions."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from pilum.dataset.lance_dataset import LanceDataset
from pilum.dataset.metadata import FragmentMetadata
from pilum.format.fields import FieldId

__all__ = ["format_fragment", "format_manifest", "format_schema", "list_transactions"]

_INDENT = "    "
_LONG = 88


def format_schema(dataset: LanceDataset) -> str:
    """Return the fields of a table with their ids and types, members below their structs."""
    return str(dataset.lance_schema)


def format_manifest(dataset: LanceDataset) -> str:
    """Return what the manifest of the version records, one fact a line."""
    manifest = dataset.snapshot.manifest
    facts: dict[str, Any] = {
        field.name: getattr(manifest, field.name)
        for field in fields(manifest)
        if field.repr and field.name not in {"schema", "fragments"}
    }
    fragments = [FragmentMetadata.from_table(one) for one in manifest.fragments.all()]
    return _shown({"Manifest": {**facts, "schema": dataset.lance_schema, "fragments": fragments}})


def format_fragment(fragment: FragmentMetadata, dataset: LanceDataset) -> str:
    """Return what the manifest records about a fragment, and the columns of each of its files."""
    schema = dataset.snapshot.schema
    files = [
        {**vars(file), "columns": [schema.path(FieldId(id)) or "(removed)" for id in file.fields]}
        for file in fragment.data_files()
    ]
    return _shown({"Fragment": {**vars(fragment), "files": files}})


def list_transactions(dataset: LanceDataset, /, max_transactions: int = 10) -> list[str]:
    """Return the newest transactions up to the version, the newest first.

    Args:
        dataset: The dataset.
        max_transactions: Maximum number of transactions.

    Raises:
        CorruptFileError: If the file of a transaction is damaged.
    """
    found = dataset.get_transactions(max_transactions)
    return ["none" if one is None else _shown(one) for one in found]


def _shown(value: Any, indent: str = "") -> str:
    """Return a value in one line, or if that is long, with one line for each part."""
    short = str(value)
    if len(short) + len(indent) <= _LONG and "\n" not in short:
        return short
    inner = indent + _INDENT
    if isinstance(value, dict):
        lines = [f"{inner}{key}: {_shown(part, inner)}" for key, part in value.items()]
        return "\n".join(["{", *lines, indent + "}"])
    if isinstance(value, list | tuple):
        lines = [inner + _shown(part, inner) for part in value]
        return "\n".join(["[", *lines, indent + "]"])
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        lines = [
            f"{inner}{field.name}: {_shown(getattr(value, field.name), inner)}"
            for field in fields(value)
            if field.repr
        ]
        return "\n".join([type(value).__name__ + " {", *lines, indent + "}"])
    return short.replace("\n", "\n" + inner)
