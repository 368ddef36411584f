"""Check the storage that field metadata ask for, before anything is written."""

from __future__ import annotations

from pilum.encodings.rows import check_members
from pilum.errors import UnsupportedTypeError
from pilum.format.blobs import is_prepared
from pilum.format.schema import Field
from pilum.format.version import FileVersion

__all__ = ["check_storage"]

_BLOB = "lance-encoding:blob"


def check_storage(field: Field, version: FileVersion, *, has_sidecars: bool) -> None:
    """Raise an error for packed structs and blobs that a file cannot hold.

    Args:
        field: A top-level field.
        version: File version.
        has_sidecars: Whether blobs may be stored in files beside the data file.

    Raises:
        UnsupportedTypeError: If there is such a field; the text names it.
    """
    _check(field, version, has_sidecars, field.name, in_list=False)


def _check(
    field: Field, version: FileVersion, has_sidecars: bool, path: str, *, in_list: bool
) -> None:
    if field.is_plain:
        return
    if field.is_packed:
        if version is not FileVersion.V2_0:  # version 2.0 has its own rules, see `v2_0/writer.py`
            _check_packed(field, version, path)
        return
    if field.blob_version == 1 and in_list:
        raise UnsupportedTypeError(f"column {path!r}: files cannot store lists of such blobs")
    if field.blob_version == 2:
        _check_blobs_v2(field, version, has_sidecars, path)
    if field.blob_version == 0 and _BLOB in field.metadata:
        raise UnsupportedTypeError(
            f"column {path!r}: blobs must be large_binary, not {field.logical_type}"
        )
    if field.blob_version:
        return
    for child in field.children:
        below = f"{path}.{child.name}"
        _check(child, version, has_sidecars, below, in_list=in_list or field.is_list)


def _check_blobs_v2(field: Field, version: FileVersion, has_sidecars: bool, path: str) -> None:
    if is_prepared(field) and has_sidecars:
        raise UnsupportedTypeError(
            f"column {path!r}: descriptors of blobs belong to one data file, and tables name "
            "theirs themselves; write the file with LanceFileSession.open_writer and commit it"
        )
    if not version.has_blobs_v2:
        raise UnsupportedTypeError(
            f"column {path!r}: blobs of version 2 need a table of file version 2.2"
        )
    if not (has_sidecars or is_prepared(field)):
        raise UnsupportedTypeError(
            f"column {path!r}: blobs of version 2 need a table, or in a single file the "
            "descriptors that BlobDescriptorArrayBuilder makes"
        )


def _check_packed(field: Field, version: FileVersion, path: str) -> None:
    for child in field.children:
        if child.blob_version:
            raise UnsupportedTypeError(f"column {path}.{child.name}: a blob in a packed struct")
    check_members(field.arrow_type, version, path)
