"""Commands that check and maintain one table without Spark."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from pilum.cli.arguments import AsJson, DryRun, Storage, Table, opened, storage_options
from pilum.cli.outcome import Exit
from pilum.cli.output import note, print_json, say
from pilum.dataset.compaction import Compaction
from pilum.distributed.health import examine_machine
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.pictures.words import size_text
from pilum.table.upkeep.repair import RepairPlan, plan_repair, restore_whole, set_aside
from pilum.table.versions.commit_handler import open_table
from pilum.table.versions.history import newest_sound

__all__ = ["cleanup", "compact", "doctor", "repair", "verify"]


def verify(
    table: Table,
    deep: Annotated[bool, typer.Option("--deep", help="Also decode all pages.")] = False,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Report missing, damaged, orphaned and misread files."""
    try:
        dataset = opened(table, storage)
    except CorruptFileError as error:
        whole = newest_sound(open_table(table, storage_options(storage)))
        if whole is None:
            raise
        note(str(error))
        dataset = opened(table, storage, str(whole.version))
    report = dataset.verify(deep=deep)
    if as_json:
        print_json({"is_valid": report.is_valid, **asdict(report)})
    else:
        say(str(report))
    return Exit.DONE if report.is_valid else Exit.FAILED


def doctor(table: Table, storage: Storage = None, as_json: AsJson = False) -> Exit:
    """Check this machine: versions, reading and writing at a location, and free space."""
    findings = examine_machine(_absolute(table), storage_options(storage))
    is_ok = all(one.is_ok for one in findings)
    if as_json:
        print_json({"is_ok": is_ok, "findings": [asdict(one) for one in findings]})
    else:
        for one in findings:
            mark = "ok" if one.is_ok else "FAILED"
            say(f"{mark:6} {one.check:8} {one.detail}{one.remedy and f'; {one.remedy}'}")
    return Exit.DONE if is_ok else Exit.FAILED


def _absolute(table: str) -> str:
    return table if "://" in table else os.path.abspath(table)


def repair(
    table: Table,
    dry_run: DryRun = False,
    restore: Annotated[
        bool, typer.Option("--restore", help="Commit the newest whole version again.")
    ] = False,
    set_damaged_aside: Annotated[
        bool, typer.Option("--set-aside", help="Rename the manifests of damaged versions.")
    ] = False,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Report damaged versions, and return to an undamaged one on request."""
    if dry_run + restore + set_damaged_aside > 1:
        raise InvalidInputError("pass one of --dry-run, --restore and --set-aside")
    store = open_table(table, storage_options(storage))
    plan = plan_repair(store)
    damage = [
        {"version": one.name.version, "what": one.what, "path": one.name.path}
        for one in plan.damaged
    ]
    lines = [
        f"version {one['version']} is damaged: {one['what']} ({one['path']})" for one in damage
    ]
    done: dict[str, object] = {}
    if restore:
        done["restored_as"] = restore_whole(store, plan)
        lines.append(f"version {done['restored_as']} has the content of {_whole(plan)}")
    elif set_damaged_aside:
        moved = set_aside(store, plan)
        done["renamed_to"] = moved
        lines += [f"renamed to {path}" for path in moved]
    else:
        lines.append(_advice(plan, table))
    if as_json:
        print_json({"newest": plan.newest, "damaged": damage, **done})
    else:
        say("\n".join(lines))
    return Exit.FAILED if plan.damaged and not done else Exit.DONE


def _whole(plan: RepairPlan) -> str:
    assert plan.whole is not None
    return f"version {plan.whole.version}, committed {plan.whole.timestamp:%Y-%m-%d %H:%M} UTC"


def _advice(plan: RepairPlan, path: str) -> str:
    """Return advice on how to repair the damage; nothing is changed."""
    if not plan.damaged:
        return f"all manifests are whole; `pilum verify {path}` looks at the other files"
    if plan.whole is None:
        return "no version is whole: copy the manifests from a backup"
    if plan.is_blocked:
        return (
            f"the newest that is whole is {_whole(plan)}\n"
            f"`pilum repair --restore {path}` makes its content version {plan.newest + 1}; "
            "nothing is removed"
        )
    return (
        f"the newest version, {plan.newest}, is whole, so that the table can be used; but no "
        "cleanup runs\n"
        f"`pilum repair --set-aside {path}` renames the damaged manifests; files that only they "
        "name belong to no version then, and a cleanup removes them when they are 7 days old"
    )


def compact(
    table: Table,
    target_rows: Annotated[
        int | None, typer.Option("--target-rows", help="Rows per fragment.")
    ] = None,
    dry_run: DryRun = False,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Compact small fragments into larger ones."""
    dataset = opened(table, storage)
    options = {"target_rows_per_fragment": target_rows}
    if dry_run:
        tasks = Compaction.plan(dataset, options).tasks
        planned = [[fragment.id for fragment in task.fragments] for task in tasks]
        if as_json:
            print_json({"fragments_to_rewrite": planned})
        else:
            number = sum(map(len, planned))
            say(f"would rewrite {number:,} fragments in {len(planned):,} tasks; nothing changed")
        return Exit.DONE
    metrics = dataset.optimize.compact_files(target_rows_per_fragment=target_rows)
    if as_json:
        print_json({"version": dataset.version, **asdict(metrics)})
    else:
        say(
            f"{metrics.fragments_removed:,} fragments became {metrics.fragments_added:,}; the "
            f"table is at version {dataset.version}"
        )
    return Exit.DONE


def cleanup(
    table: Table,
    older_than_days: Annotated[
        float, typer.Option("--older-than-days", help="Age of versions to remove.")
    ] = 14,
    dry_run: DryRun = False,
    delete_unverified: Annotated[
        bool,
        typer.Option(
            "--delete-unverified",
            help="Remove files that no version refers to at any age; only while no one writes.",
        ),
    ] = False,
    storage: Storage = None,
    as_json: AsJson = False,
) -> Exit:
    """Remove old versions, and the files that no other version needs."""
    dataset, age = opened(table, storage), _age(older_than_days)
    if dry_run:
        planned = dataset.cleanup_old_versions(
            age, delete_unverified=delete_unverified, dry_run=True
        )
        print_json(planned) if as_json else say(str(planned))
        return Exit.DONE
    stats = dataset.cleanup_old_versions(age, delete_unverified=delete_unverified)
    if as_json:
        print_json(stats)
    else:
        say(f"removed {stats.old_versions:,} versions, {size_text(stats.bytes_removed)}")
    left = dataset.explain_cleanup_old_versions(age, delete_unverified=delete_unverified)
    for warning in left.warnings:
        note(warning)
    return Exit.DONE


def _age(days: float) -> timedelta:
    try:
        return timedelta(days=days)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"--older-than-days {days}: {error}") from error
