"""The verdicts of our operations against every other: the rows of the reference's table.

Every cell that has no note was provoked with the reference, release 14.0.2; see
docs/format/table.md, "Conflicts".
"""

from __future__ import annotations

from typing import Any

import pytest

from pilum.format.pb import transaction_pb2
from pilum.format.pb.table_pb2 import DataFragment
from pilum.format.schema import Schema
from pilum.table.footprint import Verdict, verdict
from pilum.table.fragment import Fragment, FragmentId
from pilum.table.operations.append import Append
from pilum.table.operations.base import Operation
from pilum.table.operations.delete import Delete
from pilum.table.operations.foreign import FOREIGN_OPERATIONS
from pilum.table.operations.overwrite import Overwrite
from pilum.table.operations.restore import Restore
from pilum.table.transaction import OPERATIONS, Committed

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
    "update_config": T.UpdateConfig(upsert_values={"elsewhere": "x"}),
    "update_config, of the schema": T.UpdateConfig(schema_metadata_updates=UpdateMap()),
    "update_config, of a field": T.UpdateConfig(field_metadata_updates={0: UpdateMap()}),
    "update_config, same key": T.UpdateConfig(
        config_updates=UpdateMap(update_entries=[UpdateMap.Entry(key="key", value="x")])
    ),
    "update_config, same key removed": T.UpdateConfig(
        config_updates=UpdateMap(update_entries=[UpdateMap.Entry(key="key")])
    ),
    "update_config, same key, old form": T.UpdateConfig(upsert_values={"key": "x"}),
    "update_config, same key removed, old form": T.UpdateConfig(delete_keys=["key"]),
    "data_replacement": T.DataReplacement(
        replacements=[T.DataReplacement.Replacement(fragment_id=0)]
    ),
    "data_replacement, elsewhere": T.DataReplacement(
        replacements=[T.DataReplacement.Replacement(fragment_id=1)]
    ),
    "data_overlay": T.DataOverlay(),
    "update_mem_wal_state": T.UpdateMemWalState(),
    "clone": T.Clone(),
    "update_bases": T.UpdateBases(),
}

GOLDEN = """
                                           append    rows      all       overwrite of key    restore
append                                     .         .         .         .         .         .
delete                                     .         R         R         .         .         .
delete, rows of it                         .         m         m         .         .         .
delete, elsewhere                          .         .         .         .         .         .
overwrite                                  I         I         I         R         R         .
overwrite, same key                        I         I         I         R         I         .
create_index                               .         .         .         .         .         .
rewrite                                    .         R         R         .         .         .
rewrite, old form                          .         R         R         .         .         .
rewrite, elsewhere                         .         .         .         .         .         .
merge                                      R         R         R         .         .         .
merge, nulls as before                     .         R         R         .         .         .
project                                    R         .         .         .         .         .
project, nulls as before                   .         .         .         .         .         .
restore                                    I         I         I         .         .         .
reserve_fragments                          .         .         .         .         .         .
update                                     .         R         R         .         .         .
update, rows of it                         .         m         m         .         .         .
update, columns of it                      .         R         R         .         .         .
update, elsewhere                          .         .         .         .         .         .
update_config                              .         .         .         .         .         .
update_config, of the schema               .         .         .         .         .         I
update_config, of a field                  .         .         .         .         .         I
update_config, same key                    .         .         .         .         I         .
update_config, same key removed            .         .         .         .         I         .
update_config, same key, old form          .         .         .         .         I         .
update_config, same key removed, old form  .         .         .         .         I         .
data_replacement                           .         R         R         .         .         .
data_replacement, elsewhere                .         .         .         .         .         .
data_overlay                               .         .         .         .         .         .
update_mem_wal_state                       I         I         I         I         I         I
clone                                      .         .         .         .         .         .
update_bases                               .         .         .         .         .         .
"""

MINE: dict[str, Operation] = {
    "append": Append(()),
    "rows": Delete((Fragment(FragmentId(0), (), 9),)),
    "all": Delete((), (FragmentId(0),)),
    "overwrite": Overwrite(Schema(()), ()),
    "of key": Overwrite(Schema(()), (), {"key": "value"}),
    "restore": Restore(1),
}
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


@pytest.mark.checklist("S2.9")
def test_the_verdicts_are_those_of_the_reference() -> None:
    lines = [" " * 43 + "".join(f"{name:10}" for name in MINE).rstrip()]
    for name in OTHERS:
        theirs = committed(name).operation.footprint()
        signs = [SIGNS[verdict(mine.footprint(), theirs)[0]] for mine in MINE.values()]
        lines.append((f"{name:43}" + "".join(f"{sign:10}" for sign in signs)).rstrip())
    assert "\n".join(lines) == GOLDEN.strip("\n")


def test_every_operation_of_the_message_is_known() -> None:
    arms = {field.name for field in T.DESCRIPTOR.oneofs_by_name["operation"].fields}
    assert arms == {*OPERATIONS, *FOREIGN_OPERATIONS}
    assert arms == {name.split(",")[0] for name in OTHERS}


@pytest.mark.parametrize("name", ["append", "delete", "delete, elsewhere", "overwrite", "restore"])
def test_our_operations_survive_their_message(name: str) -> None:
    operation = committed(name).operation
    assert isinstance(operation, Operation)
    assert type(operation).from_proto(operation.to_proto()) == operation
