"""The verdicts of our operations against every other: the rows of the reference's table.

Every cell that has no note was provoked with the reference, release 14.0.2; see
docs/format/table.md, "Conflicts".
Ours alone: a clone creates a table, so that an overwrite that found none has to look again; and a
projection takes over what others said of the fields that it leaves, which the reference loses.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyroaring import BitMap

from pilum.format.fields import Field, FieldId
from pilum.format.pb import transaction_pb2
from pilum.format.pb.table_pb2 import DataFile as MessageFile
from pilum.format.pb.table_pb2 import DataFragment, IndexMetadata
from pilum.format.schema import Schema
from pilum.table.commit.footprint import Verdict, verdict
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.create_index import CreateIndex
from pilum.table.commit.operations.data_overlay import DataOverlay, Overlaid
from pilum.table.commit.operations.data_replacement import DataReplacement, Replacement
from pilum.table.commit.operations.delete import Delete
from pilum.table.commit.operations.merge import Merge
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.operations.project import Project
from pilum.table.commit.operations.reserve import ReserveFragments
from pilum.table.commit.operations.restore import Restore
from pilum.table.commit.operations.rewrite import Rewrite
from pilum.table.commit.operations.update import Update, UpdateMode
from pilum.table.commit.operations.update_config import MapUpdate, UpdateConfig
from pilum.table.commit.transaction import FOREIGN_OPERATIONS, OPERATIONS, Committed
from pilum.table.model.fragment import DataFile, Fragment, FragmentId
from pilum.table.model.index_segments import IndexSegment
from pilum.table.model.reuse_index import Move

T = transaction_pb2.Transaction
UpdateMap = T.UpdateMap

OTHERS: dict[str, Any] = {
    "append": T.Append(),
    "delete": T.Delete(deleted_fragment_ids=[0]),
    "delete, rows of it": T.Delete(updated_fragments=[DataFragment(id=0)]),
    "delete, elsewhere": T.Delete(updated_fragments=[DataFragment(id=1)], deleted_fragment_ids=[2]),
    "overwrite": T.Overwrite(),
    "overwrite, same key": T.Overwrite(config_upsert_values={"key": "other"}),
    "create_index": T.CreateIndex(),
    "rewrite": T.Rewrite(groups=[T.Rewrite.Group(old_fragments=[DataFragment(id=0)])]),
    "rewrite, old form": T.Rewrite(old_fragments=[DataFragment(id=0)]),
    "rewrite, elsewhere": T.Rewrite(groups=[T.Rewrite.Group(old_fragments=[DataFragment(id=1)])]),
    "merge": T.Merge(),
    "merge, nulls as before": T.Merge(preserves_nullability=True),
    "project": T.Project(),
    "project, nulls as before": T.Project(preserves_nullability=True),
    "restore": T.Restore(version=1),
    "reserve_fragments": T.ReserveFragments(num_fragments=1),
    "update": T.Update(removed_fragment_ids=[0]),
    "update, rows of it": T.Update(updated_fragments=[DataFragment(id=0)]),
    "update, columns of it": T.Update(
        updated_fragments=[DataFragment(id=0)], update_mode=T.Update.REWRITE_COLUMNS
    ),
    "update, elsewhere": T.Update(
        updated_fragments=[DataFragment(id=1)], new_fragments=[DataFragment(id=0)]
    ),
    "update, with keys": T.Update(
        new_fragments=[DataFragment(id=0)],
        fields_modified=[3],
        fields_for_preserving_frag_bitmap=[1, 2],
        updated_fragment_offset_bitmaps={4: b"bitmap"},
        inserted_rows=T.KeyExistenceFilter(field_ids=[1]),
    ),
    "update_config": T.UpdateConfig(upsert_values={"elsewhere": "x"}),
    "update_config, of the schema": T.UpdateConfig(schema_metadata_updates=UpdateMap()),
    "update_config, of a field": T.UpdateConfig(field_metadata_updates={0: UpdateMap()}),
    "update_config, of the schema, old form": T.UpdateConfig(schema_metadata={"x": "y"}),
    "update_config, of a field, old form": T.UpdateConfig(
        field_metadata={0: T.UpdateConfig.FieldMetadata()}
    ),
    "update_config, of another field": T.UpdateConfig(field_metadata_updates={1: UpdateMap()}),
    "update_config, of a note": T.UpdateConfig(
        table_metadata_updates=UpdateMap(update_entries=[UpdateMap.Entry(key="note")])
    ),
    "update_config, same key": T.UpdateConfig(
        config_updates=UpdateMap(update_entries=[UpdateMap.Entry(key="key", value="x")])
    ),
    "update_config, same key removed": T.UpdateConfig(
        config_updates=UpdateMap(update_entries=[UpdateMap.Entry(key="key")])
    ),
    "update_config, same key, old form": T.UpdateConfig(upsert_values={"key": "x"}),
    "update_config, same key removed, old form": T.UpdateConfig(delete_keys=["key"]),
    "data_replacement": T.DataReplacement(
        replacements=[
            T.DataReplacement.Replacement(fragment_id=0, new_file=MessageFile(fields=[7]))
        ]
    ),
    "data_replacement, elsewhere": T.DataReplacement(
        replacements=[
            T.DataReplacement.Replacement(fragment_id=1, new_file=MessageFile(fields=[7]))
        ]
    ),
    "data_overlay": T.DataOverlay(groups=[T.DataOverlay.Group(fragment_id=0)]),
    "data_overlay, elsewhere": T.DataOverlay(groups=[T.DataOverlay.Group(fragment_id=1)]),
    "update_mem_wal_state": T.UpdateMemWalState(),
    "clone": T.Clone(),
    "update_bases": T.UpdateBases(),
}

GOLDEN = """
                                           add   rows  all   anew  key   merge must  drop  back
append                                     .     .     .     .     .     R     R     .     .
delete                                     .     R     R     .     .     R     .     .     .
delete, rows of it                         .     m     m     .     .     R     .     .     .
delete, elsewhere                          .     .     .     .     .     R     .     .     .
overwrite                                  I     I     I     R     R     I     I     I     .
overwrite, same key                        I     I     I     R     I     I     I     I     .
create_index                               .     .     .     .     .     .     .     .     .
rewrite                                    .     R     R     .     .     R     .     .     .
rewrite, old form                          .     R     R     .     .     R     .     .     .
rewrite, elsewhere                         .     .     .     .     .     R     .     .     .
merge                                      R     R     R     .     .     R     R     R     .
merge, nulls as before                     .     R     R     .     .     R     R     R     .
project                                    R     .     .     .     .     I     R     R     .
project, nulls as before                   .     .     .     .     .     I     R     R     .
restore                                    I     I     I     .     .     I     I     I     .
reserve_fragments                          .     .     .     .     .     .     .     .     .
update                                     .     R     R     .     .     R     R     .     .
update, rows of it                         .     m     m     .     .     R     R     .     .
update, columns of it                      .     R     R     .     .     R     R     .     .
update, elsewhere                          .     .     .     .     .     R     R     .     .
update, with keys                          .     .     .     .     .     R     R     .     .
update_config                              .     .     .     .     .     .     .     .     .
update_config, of the schema               .     .     .     .     .     R     .     .     I
update_config, of a field                  .     .     .     .     .     R     .     m     I
update_config, of the schema, old form     .     .     .     .     .     R     .     .     I
update_config, of a field, old form        .     .     .     .     .     R     .     m     I
update_config, of another field            .     .     .     .     .     R     .     .     I
update_config, of a note                   .     .     .     .     .     .     .     .     .
update_config, same key                    .     .     .     .     I     .     .     .     .
update_config, same key removed            .     .     .     .     I     .     .     .     .
update_config, same key, old form          .     .     .     .     I     .     .     .     .
update_config, same key removed, old form  .     .     .     .     I     .     .     .     .
data_replacement                           .     R     R     .     .     R     R     .     .
data_replacement, elsewhere                .     .     .     .     .     R     R     .     .
data_overlay                               .     .     .     .     .     R     R     .     .
data_overlay, elsewhere                    .     .     .     .     .     R     R     .     .
update_mem_wal_state                       I     I     I     I     I     I     I     I     I
clone                                      .     .     .     R     R     .     .     .     .
update_bases                               .     .     .     .     .     .     .     .     .
"""

GOLDEN_CONFIG = """
                                           sets  unset note  whole field
append                                     .     .     .     .     .
delete                                     .     .     .     .     .
delete, rows of it                         .     .     .     .     .
delete, elsewhere                          .     .     .     .     .
overwrite                                  .     .     .     I     I
overwrite, same key                        I     I     .     I     I
create_index                               .     .     .     .     .
rewrite                                    .     .     .     .     .
rewrite, old form                          .     .     .     .     .
rewrite, elsewhere                         .     .     .     .     .
merge                                      .     .     .     R     R
merge, nulls as before                     .     .     .     R     R
project                                    .     .     .     .     .
project, nulls as before                   .     .     .     .     .
restore                                    .     .     .     I     I
reserve_fragments                          .     .     .     .     .
update                                     .     .     .     .     .
update, rows of it                         .     .     .     .     .
update, columns of it                      .     .     .     .     .
update, elsewhere                          .     .     .     .     .
update, with keys                          .     .     .     .     .
update_config                              .     .     .     .     .
update_config, of the schema               .     .     .     I     .
update_config, of a field                  .     .     .     .     I
update_config, of the schema, old form     .     .     .     I     .
update_config, of a field, old form        .     .     .     .     I
update_config, of another field            .     .     .     .     .
update_config, of a note                   .     .     I     .     .
update_config, same key                    I     I     .     .     .
update_config, same key removed            I     .     .     .     .
update_config, same key, old form          I     I     .     .     .
update_config, same key removed, old form  I     .     .     .     .
data_replacement                           .     .     .     .     .
data_replacement, elsewhere                .     .     .     .     .
data_overlay                               .     .     .     .     .
data_overlay, elsewhere                    .     .     .     .     .
update_mem_wal_state                       .     .     .     .     .
clone                                      .     .     .     .     .
update_bases                               .     .     .     .     .
"""

GOLDEN_FRAGMENTS = """
                                           pack  ids
append                                     .     .
delete                                     R     .
delete, rows of it                         m     .
delete, elsewhere                          .     .
overwrite                                  I     I
overwrite, same key                        I     I
create_index                               .     .
rewrite                                    R     .
rewrite, old form                          R     .
rewrite, elsewhere                         .     .
merge                                      R     .
merge, nulls as before                     R     .
project                                    .     .
project, nulls as before                   .     .
restore                                    I     I
reserve_fragments                          .     .
update                                     R     .
update, rows of it                         m     .
update, columns of it                      R     .
update, elsewhere                          .     .
update, with keys                          .     .
update_config                              .     .
update_config, of the schema               .     .
update_config, of a field                  .     .
update_config, of the schema, old form     .     .
update_config, of a field, old form        .     .
update_config, of another field            .     .
update_config, of a note                   .     .
update_config, same key                    .     .
update_config, same key removed            .     .
update_config, same key, old form          .     .
update_config, same key removed, old form  .     .
data_replacement                           R     .
data_replacement, elsewhere                .     .
data_overlay                               R     .
data_overlay, elsewhere                    .     .
update_mem_wal_state                       .     .
clone                                      .     .
update_bases                               .     .
"""

GOLDEN_UPDATE = """
                                           rows  all   cols  keys  told
append                                     .     .     .     R     R
delete                                     R     R     R     .     .
delete, rows of it                         m     m     m     .     .
delete, elsewhere                          .     .     .     .     .
overwrite                                  I     I     I     I     I
overwrite, same key                        I     I     I     I     I
create_index                               .     .     .     .     .
rewrite                                    R     R     R     .     .
rewrite, old form                          R     R     R     .     .
rewrite, elsewhere                         .     .     .     .     .
merge                                      R     R     R     R     R
merge, nulls as before                     R     R     R     R     R
project                                    R     R     R     R     R
project, nulls as before                   .     .     .     .     .
restore                                    I     I     I     I     I
reserve_fragments                          .     .     .     .     .
update                                     R     R     R     R     R
update, rows of it                         m     m     m     R     R
update, columns of it                      R     R     R     R     R
update, elsewhere                          .     .     .     R     R
update, with keys                          .     .     .     R     R
update_config                              .     .     .     .     .
update_config, of the schema               .     .     .     .     .
update_config, of a field                  .     .     .     .     .
update_config, of the schema, old form     .     .     .     .     .
update_config, of a field, old form        .     .     .     .     .
update_config, of another field            .     .     .     .     .
update_config, of a note                   .     .     .     .     .
update_config, same key                    .     .     .     .     .
update_config, same key removed            .     .     .     .     .
update_config, same key, old form          .     .     .     .     .
update_config, same key removed, old form  .     .     .     .     .
data_replacement                           R     R     R     .     .
data_replacement, elsewhere                .     .     .     .     .
data_overlay                               R     R     R     .     .
data_overlay, elsewhere                    .     .     .     .     .
update_mem_wal_state                       I     I     I     I     I
clone                                      .     .     .     .     .
update_bases                               .     .     .     .     .
"""

GOLDEN_INDEX = """
                                           made  any   gone
append                                     .     .     .
delete                                     .     .     .
delete, rows of it                         .     .     .
delete, elsewhere                          .     .     .
overwrite                                  I     I     I
overwrite, same key                        I     I     I
create_index                               .     .     .
rewrite                                    R     R     .
rewrite, old form                          R     R     .
rewrite, elsewhere                         .     R     .
merge                                      .     .     .
merge, nulls as before                     .     .     .
project                                    .     .     .
project, nulls as before                   .     .     .
restore                                    I     I     I
reserve_fragments                          .     .     .
update                                     .     .     .
update, rows of it                         .     .     .
update, columns of it                      .     .     .
update, elsewhere                          .     .     .
update, with keys                          .     .     .
update_config                              .     .     .
update_config, of the schema               .     .     .
update_config, of a field                  .     .     .
update_config, of the schema, old form     .     .     .
update_config, of a field, old form        .     .     .
update_config, of another field            .     .     .
update_config, of a note                   .     .     .
update_config, same key                    .     .     .
update_config, same key removed            .     .     .
update_config, same key, old form          .     .     .
update_config, same key removed, old form  .     .     .
data_replacement                           .     R     .
data_replacement, elsewhere                .     R     .
data_overlay                               .     .     .
data_overlay, elsewhere                    .     .     .
update_mem_wal_state                       .     .     .
clone                                      .     .     .
update_bases                               .     .     .
"""

GOLDEN_REPLACEMENT = """
                                           same  else
append                                     .     .
delete                                     I     I
delete, rows of it                         .     .
delete, elsewhere                          .     .
overwrite                                  I     I
overwrite, same key                        I     I
create_index                               .     .
rewrite                                    R     R
rewrite, old form                          R     R
rewrite, elsewhere                         .     .
merge                                      R     R
merge, nulls as before                     R     R
project                                    R     R
project, nulls as before                   .     .
restore                                    I     I
reserve_fragments                          .     .
update                                     I     I
update, rows of it                         R     R
update, columns of it                      .     .
update, elsewhere                          .     .
update, with keys                          .     .
update_config                              .     .
update_config, of the schema               .     .
update_config, of a field                  .     .
update_config, of the schema, old form     .     .
update_config, of a field, old form        .     .
update_config, of another field            .     .
update_config, of a note                   .     .
update_config, same key                    .     .
update_config, same key removed            .     .
update_config, same key, old form          .     .
update_config, same key removed, old form  .     .
data_replacement                           R     .
data_replacement, elsewhere                .     .
data_overlay                               .     .
data_overlay, elsewhere                    .     .
update_mem_wal_state                       I     I
clone                                      .     .
update_bases                               .     .
"""

GOLDEN_OVERLAY = """
                                           over
append                                     .
delete                                     R
delete, rows of it                         .
delete, elsewhere                          .
overwrite                                  I
overwrite, same key                        I
create_index                               .
rewrite                                    R
rewrite, old form                          R
rewrite, elsewhere                         .
merge                                      R
merge, nulls as before                     R
project                                    R
project, nulls as before                   .
restore                                    I
reserve_fragments                          .
update                                     R
update, rows of it                         R
update, columns of it                      .
update, elsewhere                          .
update, with keys                          .
update_config                              .
update_config, of the schema               .
update_config, of a field                  .
update_config, of the schema, old form     .
update_config, of a field, old form        .
update_config, of another field            .
update_config, of a note                   .
update_config, same key                    .
update_config, same key removed            .
update_config, same key, old form          .
update_config, same key removed, old form  .
data_replacement                           .
data_replacement, elsewhere                .
data_overlay                               .
data_overlay, elsewhere                    .
update_mem_wal_state                       I
clone                                      .
update_bases                               .
"""

# "must" is a projection after which a column must not have nulls, "drop" any other, with field 0.
MINE: dict[str, Operation] = {
    "add": Append(()),
    "rows": Delete((Fragment(FragmentId(0), (), 9),)),
    "all": Delete((), (FragmentId(0),)),
    "anew": Overwrite(Schema(()), ()),
    "key": Overwrite(Schema(()), (), {"key": "value"}),
    "merge": Merge(Schema(()), ()),
    "must": Project(Schema(())),
    "drop": Project(Schema((Field("a", FieldId(0), "int64"),)), preserves_nullability=True),
    "back": Restore(1),
}
CONFIG: dict[str, Operation] = {
    "sets": UpdateConfig(MapUpdate({"key": "value"})),
    "unset": UpdateConfig(MapUpdate({"key": None})),
    "note": UpdateConfig(table_metadata=MapUpdate({"note": None})),
    "whole": UpdateConfig(schema_metadata=MapUpdate({"a": "b"})),
    "field": UpdateConfig(fields={FieldId(0): MapUpdate()}),
}
FRAGMENTS: dict[str, Operation] = {
    "pack": Rewrite((Move((Fragment(FragmentId(0), (), 9),), ()),)),
    "ids": ReserveFragments(1),
}
UPDATE: dict[str, Operation] = {
    "rows": Update((Fragment(FragmentId(0), (), 9),)),
    "all": Update((), (FragmentId(0),), (Fragment(FragmentId(0), (), 9),)),
    "cols": Update((Fragment(FragmentId(0), (), 9),), mode=UpdateMode.COLUMNS),
    "keys": Update(new=(Fragment(FragmentId(0), (), 9),), inserts_keys=True),
    "told": Update(new=(Fragment(FragmentId(0), (), 9),), key_filter=b""),
}


def segment(name: str, field: int, covers: BitMap | None = None) -> IndexSegment:
    bitmap = b"" if covers is None else covers.serialize()
    return IndexSegment(IndexMetadata(name=name, fields=[field], fragment_bitmap=bitmap))


# "made" covers fragment 0 and is on field 0, "any" covers nobody knows what and is on field 7.
INDEX: dict[str, Operation] = {
    "made": CreateIndex((segment("index", 0, BitMap([0])),)),
    "any": CreateIndex((segment("any", 7),)),
    "gone": CreateIndex((), (segment("index", 0, BitMap([0])),)),
}


def replaced(fragment: int, *fields: int) -> Replacement:
    columns = tuple(range(len(fields)))
    return Replacement(
        FragmentId(fragment), DataFile("f", tuple(map(FieldId, fields)), columns, 2, 1)
    )


# "same" has the field that others replace too, "else" does not.
REPLACEMENT: dict[str, Operation] = {
    "same": DataReplacement((replaced(0, 7),)),
    "else": DataReplacement((replaced(0, 3),)),
}
OVERLAY: dict[str, Operation] = {
    "over": DataOverlay((Overlaid(FragmentId(0), ()),)),
}
CONFIGS = [name for name in OTHERS if name.startswith("update_config")]
SIGNS = {
    Verdict.COMPATIBLE: ".",
    Verdict.MERGEABLE: "m",
    Verdict.RETRYABLE: "R",
    Verdict.INCOMPATIBLE: "I",
}


def committed(name: str) -> Committed:
    message = T(uuid="u")
    arm = getattr(message, name.split(",", maxsplit=1)[0])
    arm.SetInParent()
    arm.CopyFrom(OTHERS[name])
    return Committed.from_proto(2, T.FromString(message.SerializeToString()))


def verdicts(mine: dict[str, Operation]) -> str:
    lines = [" " * 43 + "".join(f"{name:6}" for name in mine).rstrip()]
    for name in OTHERS:
        theirs = committed(name).operation.footprint()
        signs = [SIGNS[verdict(one.footprint(), theirs)[0]] for one in mine.values()]
        lines.append((f"{name:43}" + "".join(f"{sign:6}" for sign in signs)).rstrip())
    return "\n".join(lines)


@pytest.mark.checklist("S2.9")
@pytest.mark.parametrize(
    ("mine", "golden"),
    [
        (MINE, GOLDEN),
        (CONFIG, GOLDEN_CONFIG),
        (FRAGMENTS, GOLDEN_FRAGMENTS),
        (UPDATE, GOLDEN_UPDATE),
        (INDEX, GOLDEN_INDEX),
        (REPLACEMENT, GOLDEN_REPLACEMENT),
        (OVERLAY, GOLDEN_OVERLAY),
    ],
)
def test_the_verdicts_are_those_of_the_reference(mine: dict[str, Operation], golden: str) -> None:
    assert verdicts(mine) == golden.strip("\n")


@pytest.mark.checklist("S2.9")
def test_indices_of_one_name_exclude_each_other_unless_both_are_dropped() -> None:
    signs = [
        [SIGNS[verdict(mine.footprint(), INDEX[name].footprint())[0]] for name in ("made", "gone")]
        for mine in INDEX.values()
    ]
    assert signs == [["R", "R"], [".", "."], ["R", "."]]


def test_every_operation_of_the_message_is_known() -> None:
    arms = {field.name for field in T.DESCRIPTOR.oneofs_by_name["operation"].fields}
    assert arms == {*OPERATIONS, *FOREIGN_OPERATIONS}
    assert arms == {name.split(",")[0] for name in OTHERS}


@pytest.mark.parametrize(
    "name",
    [
        "append",
        "delete",
        "merge, nulls as before",
        "overwrite",
        "project",
        "reserve_fragments",
        "restore",
        "rewrite",
        "update, columns of it",
        "update, elsewhere",
        "update, with keys",
        "data_replacement, elsewhere",
        *CONFIGS,
    ],
)
def test_our_operations_survive_their_message(name: str) -> None:
    operation = committed(name).operation
    assert isinstance(operation, Operation)
    assert type(operation).from_proto(operation.to_proto()) == operation
