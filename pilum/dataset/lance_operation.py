"""The operations that can be committed by hand, as users write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pilum.dataset.base_paths import DatasetBasePath
from pilum.dataset.index_metadata import Index
from pilum.dataset.metadata import DataFile, FragmentMetadata
from pilum.errors import UnsupportedFeatureError
from pilum.format.schema import Schema

__all__ = ["LanceOperation"]


class LanceOperation:
    """What can be committed."""

    @dataclass
    class BaseOperation:
        """Base of the operations."""

    class DataOverlay(BaseOperation):
        """Values that lie over those of data files are not supported.

        Raises:
            UnsupportedFeatureError: Always, as by the next ones.
        """

        def __init__(self, *_: Any, **__: Any) -> None:
            raise UnsupportedFeatureError(
                "overlays of data files are not supported; `LanceFragment.update_columns` writes "
                "other values"
            )

    DataOverlayFile = DataOverlay
    DataOverlayGroup = DataOverlay

    @dataclass
    class Append(BaseOperation):
        """Adds rows.

        Attributes:
            fragments: What `write_fragments` gave in mode "append".
        """

        fragments: Iterable[FragmentMetadata]

    @dataclass
    class Overwrite(BaseOperation):
        """Replaces schema and rows, or makes a new table.

        Attributes:
            new_schema: The columns. A `pyarrow.Schema` is numbered as `write_fragments` does it in
                mode "create" and "overwrite".
            fragments: What `write_fragments` gave in one of these modes.
            initial_bases: Base paths of a new table; ids that are missing or 0 are given in order,
                from 1. A table that exists takes none.
        """

        new_schema: pa.Schema | Schema
        fragments: Iterable[FragmentMetadata]
        initial_bases: list[DatasetBasePath] | None = None

    @dataclass
    class Delete(BaseOperation):
        """Marks rows as deleted, and drops fragments without any others.

        Attributes:
            updated_fragments: What `LanceFragment.delete` gave.
            deleted_fragment_ids: Of fragments for which it gave None.
            predicate: What chose the rows, for readers of the history.
        """

        updated_fragments: Iterable[FragmentMetadata]
        deleted_fragment_ids: Iterable[int]
        predicate: str

    @dataclass
    class Update(BaseOperation):
        """Changes rows, and may add and remove some.

        Attributes:
            removed_fragment_ids: Of fragments of which no row is left.
            updated_fragments: Fragments as they are afterwards: with other deletion files, or, with
                `update_mode` "rewrite_columns", with other data files.
            new_fragments: The rows that were written.
            fields_modified: Ids of fields with other values in `updated_fragments`.
            fields_for_preserving_frag_bitmap: Ids of fields with other values in `new_fragments`.
            update_mode: "rewrite_rows" or "rewrite_columns"; the first if empty.
            updated_fragment_offsets: With "rewrite_columns" and stable row ids: the physical rows
                of each fragment that changed, as Roaring bitmaps.
        """

        removed_fragment_ids: list[int] = field(default_factory=list)
        updated_fragments: list[FragmentMetadata] = field(default_factory=list)
        new_fragments: list[FragmentMetadata] = field(default_factory=list)
        fields_modified: list[int] = field(default_factory=list)
        fields_for_preserving_frag_bitmap: list[int] = field(default_factory=list)
        update_mode: str = ""
        updated_fragment_offsets: dict[int, bytes] | None = None

    @dataclass
    class UpdateMap:
        """A change of a map of texts.

        Attributes:
            updates: What keys are set to; None removes a key.
            replace: Whether all other keys are removed.
        """

        updates: dict[str, str | None]
        replace: bool = False

    @dataclass
    class UpdateConfig(BaseOperation):
        """Changes config and metadata; None leaves one as it is.

        Attributes:
            config_updates: Of the settings of the table.
            table_metadata_updates: Of the notes about it.
            schema_metadata_updates: Of the metadata of its schema.
            field_metadata_updates: Of the metadata of fields, by their ids.
        """

        config_updates: LanceOperation.UpdateMap | None = None
        table_metadata_updates: LanceOperation.UpdateMap | None = None
        schema_metadata_updates: LanceOperation.UpdateMap | None = None
        field_metadata_updates: dict[int, LanceOperation.UpdateMap] | None = None

    @dataclass
    class Restore(BaseOperation):
        """Makes an old version the newest again.

        Attributes:
            version: Its number.
        """

        version: int

    @dataclass
    class Merge(BaseOperation):
        """Adds columns: every fragment may have got one more file.

        Attributes:
            fragments: All fragments of the table, with their new files.
            schema: All columns, the old ones with the ids that they have. A `pyarrow.Schema` is
                numbered from 0.
            preserves_nullability: Whether rows that lack the new columns are fine.
        """

        fragments: Iterable[FragmentMetadata]
        schema: pa.Schema | Schema
        preserves_nullability: bool = False

    @dataclass
    class Project(BaseOperation):
        """Drops columns, or gives them another name or nullability.

        Attributes:
            schema: The columns that are left, with the ids that they have.
            preserves_nullability: Whether no column asks for values that could be null before.
        """

        schema: Schema
        preserves_nullability: bool = False

    @dataclass
    class RewriteGroup:
        """Fragments, and those that have the same rows in the same order.

        Attributes:
            old_fragments: As they are in the table.
            new_fragments: What takes their place.
        """

        old_fragments: Iterable[FragmentMetadata]
        new_fragments: Iterable[FragmentMetadata]

    @dataclass
    class RewrittenIndex:
        """An index that was made anew for rows that have moved.

        Attributes:
            old_id: Its uuid before.
            new_id: Its uuid now.
            new_details_type_url: Kind of its details.
            new_details_value: Its details.
            new_index_version: Version of the index format.
        """

        old_id: str
        new_id: str
        new_details_type_url: str
        new_details_value: bytes
        new_index_version: int

    @dataclass
    class Rewrite(BaseOperation):
        """Puts fragments in the place of others that have the same rows.

        Attributes:
            groups: Which take the place of which.
            rewritten_indices: None may be given: the commit looks after the indices.
        """

        groups: Iterable[LanceOperation.RewriteGroup]
        rewritten_indices: Iterable[LanceOperation.RewrittenIndex]

    @dataclass
    class CreateIndex(BaseOperation):
        """Adds and removes segments of indices.

        Attributes:
            new_indices: Segments whose files are there.
            removed_indices: Segments that go.
        """

        new_indices: list[Index]
        removed_indices: list[Index]

    @dataclass
    class DataReplacementGroup:
        """A new file of a fragment.

        Attributes:
            fragment_id: Of the fragment.
            new_file: With as many rows as the fragment has, deleted ones included.
        """

        fragment_id: int
        new_file: DataFile

    @dataclass
    class DataReplacement(BaseOperation):
        """Gives columns of fragments other values, by files that are there.

        Attributes:
            replacements: One file for each fragment, all with the same fields.
        """

        replacements: list[LanceOperation.DataReplacementGroup]

    @dataclass
    class Clone(BaseOperation):
        """How a clone or branch began; `shallow_clone`, `deep_clone` and `create_branch` make it.

        Attributes:
            is_shallow: Whether the files stayed where they were.
            ref_name: Branch of the version that was cloned, None for the main branch.
            ref_version: Its number.
            ref_path: Root of the line that it is on.
            branch_name: The branch that began, None for a table of its own.
        """

        is_shallow: bool
        ref_name: str | None
        ref_version: int
        ref_path: str
        branch_name: str | None
