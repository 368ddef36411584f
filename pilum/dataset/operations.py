"""The operations that `LanceDataset.commit` accepts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from pilum.dataset.metadata import DataFile, DataOverlayFile, FragmentMetadata, Index
from pilum.dataset.settings import DatasetBasePath
from pilum.format.schema import Schema

__all__ = ["LanceOperation"]


class LanceOperation:
    """The namespace of operations that can be committed."""

    @dataclass
    class BaseOperation:
        """Base class of the operations."""

    DataOverlayFile = DataOverlayFile

    @dataclass
    class DataOverlayGroup:
        """New overlays of a fragment.

        Attributes:
            fragment_id: Id of the fragment.
            overlays: The overlays; a later one counts where it has values for the same cells.
        """

        fragment_id: int
        overlays: list[DataOverlayFile]

    @dataclass
    class DataOverlay(BaseOperation):
        """An operation that gives some cells new values, without other files for all rows.

        The overlays are added to those that the fragments have. Other readers of the format may
        refuse tables with overlays; a compaction writes the values into new files.

        Attributes:
            groups: The fragments with their overlays.
        """

        groups: list[LanceOperation.DataOverlayGroup]

    @dataclass
    class Append(BaseOperation):
        """An operation that adds rows.

        Attributes:
            fragments: Fragments that `write_fragments` returned in mode "append".
        """

        fragments: Iterable[FragmentMetadata]

    @dataclass
    class Overwrite(BaseOperation):
        """An operation that replaces schema and rows, or creates a table.

        Attributes:
            new_schema: The new schema. A `pyarrow.Schema` gets field ids as in `write_fragments`
                with mode "create" or "overwrite".
            fragments: Fragments that `write_fragments` returned in one of these modes.
            initial_bases: Base paths of a new table; missing ids and 0 are assigned in order, from
                1. Not allowed for an existing table.
        """

        new_schema: pa.Schema | Schema
        fragments: Iterable[FragmentMetadata]
        initial_bases: list[DatasetBasePath] | None = None

    @dataclass
    class Delete(BaseOperation):
        """An operation that marks rows as deleted and drops fragments that have no rows left.

        Attributes:
            updated_fragments: Fragments that `LanceFragment.delete` returned.
            deleted_fragment_ids: Ids of fragments for which it returned None.
            predicate: The predicate that selected the rows; it is recorded in the history.
        """

        updated_fragments: Iterable[FragmentMetadata]
        deleted_fragment_ids: Iterable[int]
        predicate: str

    @dataclass
    class Update(BaseOperation):
        """An operation that changes rows, and may add and remove some.

        Attributes:
            removed_fragment_ids: Ids of fragments that have no rows left.
            updated_fragments: The fragments after the update: with other deletion files, or, with
                `update_mode` "rewrite_columns", with other data files.
            new_fragments: Fragments with the written rows.
            fields_modified: Ids of fields with new values in `updated_fragments`.
            fields_for_preserving_frag_bitmap: Ids of fields with new values in `new_fragments`.
            update_mode: "rewrite_rows" or "rewrite_columns"; empty means "rewrite_rows".
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
        """An update of a map of strings.

        Attributes:
            updates: New values by key; None removes a key.
            replace: Whether to remove all other keys.
        """

        updates: dict[str, str | None]
        replace: bool = False

    @dataclass
    class UpdateConfig(BaseOperation):
        """An operation that changes config and metadata; None leaves a map unchanged.

        Attributes:
            config_updates: Updates of the config of the table.
            table_metadata_updates: Updates of the metadata of the table.
            schema_metadata_updates: Updates of the metadata of the schema.
            field_metadata_updates: Updates of the metadata of fields, by field id.
        """

        config_updates: LanceOperation.UpdateMap | None = None
        table_metadata_updates: LanceOperation.UpdateMap | None = None
        schema_metadata_updates: LanceOperation.UpdateMap | None = None
        field_metadata_updates: dict[int, LanceOperation.UpdateMap] | None = None

    @dataclass
    class Restore(BaseOperation):
        """An operation that restores an old version as the newest one.

        Attributes:
            version: Number of the version to restore.
        """

        version: int

    @dataclass
    class Merge(BaseOperation):
        """An operation that adds columns; each fragment may have one more file.

        Attributes:
            fragments: All fragments of the table, with their new files.
            schema: All columns; existing ones keep their field ids. A `pyarrow.Schema` gets field
                ids from 0.
            preserves_nullability: Whether rows without values in the new columns are allowed.
        """

        fragments: Iterable[FragmentMetadata]
        schema: pa.Schema | Schema
        preserves_nullability: bool = False

    @dataclass
    class Project(BaseOperation):
        """An operation that drops columns, or changes their names or nullability.

        Attributes:
            schema: The remaining columns, with their existing field ids.
            preserves_nullability: Whether no column that could be null before becomes non-nullable.
        """

        schema: Schema
        preserves_nullability: bool = False

    @dataclass
    class RewriteGroup:
        """Fragments, and those that replace them with the same rows in the same order.

        Attributes:
            old_fragments: The fragments as they are in the table.
            new_fragments: The fragments that replace them.
        """

        old_fragments: Iterable[FragmentMetadata]
        new_fragments: Iterable[FragmentMetadata]

    @dataclass
    class RewrittenIndex:
        """An index that was rewritten for rows that have moved.

        Attributes:
            old_id: The old uuid of the index.
            new_id: The new uuid of the index.
            new_details_type_url: Type URL of its details.
            new_details_value: The bytes of its details.
            new_index_version: Version of the index format.
        """

        old_id: str
        new_id: str
        new_details_type_url: str
        new_details_value: bytes
        new_index_version: int

    @dataclass
    class Rewrite(BaseOperation):
        """An operation that replaces fragments by others with the same rows.

        Attributes:
            groups: The old fragments and their replacements.
            rewritten_indices: Segments with new files for the new places of rows; moves are
                recorded for the others.
        """

        groups: Iterable[LanceOperation.RewriteGroup]
        rewritten_indices: Iterable[LanceOperation.RewrittenIndex]

    @dataclass
    class CreateIndex(BaseOperation):
        """An operation that adds and removes index segments.

        Attributes:
            new_indices: Segments to add; their files must exist.
            removed_indices: Segments to remove.
        """

        new_indices: list[Index]
        removed_indices: list[Index]

    @dataclass
    class DataReplacementGroup:
        """A new data file for a fragment.

        Attributes:
            fragment_id: Id of the fragment.
            new_file: The file, with as many rows as the fragment, including deleted ones.
        """

        fragment_id: int
        new_file: DataFile

    @dataclass
    class DataReplacement(BaseOperation):
        """An operation that gives columns of fragments new values, from existing files.

        Attributes:
            replacements: One file for each fragment, all with the same fields.
        """

        replacements: list[LanceOperation.DataReplacementGroup]

    @dataclass
    class Clone(BaseOperation):
        """The start of a clone or branch; see `shallow_clone`, `deep_clone` and `create_branch`.

        Attributes:
            is_shallow: Whether the clone refers to the files of the source.
            ref_name: Branch of the cloned version; None for the main branch.
            ref_version: Number of the cloned version.
            ref_path: Root of the branch of the cloned version.
            branch_name: The new branch; None for a separate table.
        """

        is_shallow: bool
        ref_name: str | None
        ref_version: int
        ref_path: str
        branch_name: str | None
