"""The fragments of a manifest as it was read: surveyed at once, built when somebody needs them."""

from __future__ import annotations

from dataclasses import dataclass

from pilum.errors import CorruptFileError
from pilum.format.pb import table_pb2
from pilum.table.features import Feature
from pilum.table.fragment import Fragment

__all__ = ["Survey", "build_fragments", "survey"]


@dataclass(frozen=True, slots=True)
class Survey:
    """What the fragments of a manifest say together.

    Attributes:
        features: Those that the content of the manifest shows, whatever its flags say.
        num_rows: Rows that are not deleted, as far as it was recorded.
        is_counted: Whether the numbers of rows of all fragments were recorded.
    """

    features: Feature
    num_rows: int
    is_counted: bool


def survey(message: table_pb2.Manifest) -> Survey:
    """Looks at every fragment, which takes an eighth of the time of building it."""
    found = int(Feature.BASE_PATHS) if message.base_paths else 0  # a plain int is much faster
    num_rows, is_counted = 0, True
    for fragment in message.fragments:
        rows = fragment.physical_rows
        if not rows:
            is_counted = False
        if fragment.HasField("deletion_file"):
            deletion_file = fragment.deletion_file
            found |= Feature.DELETION_FILES.value
            if deletion_file.HasField("base_id"):
                found |= Feature.BASE_PATHS.value
            if not deletion_file.num_deleted_rows:
                is_counted = False
            rows -= deletion_file.num_deleted_rows
        if fragment.overlays:
            found |= Feature.DATA_OVERLAY_FILES.value
        num_rows += rows
    return Survey(Feature(found), num_rows, is_counted)


def build_fragments(message: table_pb2.Manifest, where: str) -> tuple[Fragment, ...]:
    """The fragments of a manifest that stands at `where`.

    Raises:
        CorruptFileError: If they contradict the format.
    """
    try:
        return tuple(map(Fragment.from_proto, message.fragments))
    except CorruptFileError as error:
        raise error.at(where) if where else error from None
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"a path is not UTF-8: {error}", where) from error
