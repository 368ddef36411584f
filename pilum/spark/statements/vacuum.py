"""VACUUM table [RETAIN n HOURS | DAYS] [DRY RUN].

    VACUUM orders RETAIN 48 HOURS

Removes the versions that are older, two weeks by default, and the files that only they need.
Versions with tags stay. DRY RUN removes nothing. Result: bytes_removed, old_versions; with DRY RUN
those that would be removed.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import DataFrame
from sqlglot import exp

from pilum.spark.statements.grammar import Rule, Words

if TYPE_CHECKING:
    from pilum.spark.statements.call import Call

__all__ = ["RULE"]

_HOURS = {"HOUR": 1, "HOURS": 1, "DAY": 24, "DAYS": 24}


class Vacuum(exp.Expression):
    """A VACUUM statement, with the table as `this`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "hours": False, "is_dry": True}


def parse(words: Words) -> Vacuum | None:
    """Parse the statement; return None if it is another one."""
    if not words.take("VACUUM"):
        return None
    table, hours = words.table(), None
    if words.take("RETAIN"):
        number = words.number()
        unit = next((unit for unit in _HOURS if words.take(unit)), None)
        if unit is None:
            words.refuse("HOURS or DAYS")
        hours = number * _HOURS[unit]
    is_dry = words.take("DRY", "RUN")
    if not words.has_ended():
        words.refuse("RETAIN n HOURS, DRY RUN or the end of the statement")
    return Vacuum(this=table, hours=hours, is_dry=is_dry)


def run(call: Call) -> DataFrame:
    """Remove old versions, or report what would be removed."""
    table, hours = call.dataset(call.target(call.tree.this)), call.tree.args["hours"]
    age = None if hours is None else timedelta(hours=hours)
    clean = partial(table.cleanup_old_versions, age, error_if_tagged_old_versions=False)
    is_dry = call.tree.args["is_dry"]
    found: Any = clean(dry_run=True) if is_dry else clean()
    done = found.stats if is_dry else found
    return call.report(bytes_removed=done.bytes_removed, old_versions=done.old_versions)


RULE = Rule(Vacuum, run, parse=parse)
