"""Commands that inspect and maintain one table without Spark."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from dataclasses import asdict
from datetime import timedelta

from pilum.cli.outcome import Exit
from pilum.dataset.lance_dataset import LanceDataset
from pilum.errors import CorruptFileError
from pilum.table.upkeep.repair import RepairPlan, plan_repair, restore_whole, set_aside
from pilum.table.versions.commit_handler import open_table
from pilum.table.versions.history import list_versions, newest_sound

__all__ = ["cleanup", "compact", "info", "repair", "verify", "versions"]


def info(arguments: Namespace) -> Exit:
    """Print the version, the numbers of rows, fragments and bytes, and the columns of a table."""
    dataset = LanceDataset(arguments.path)
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    size = sum(file.file_size_bytes or 0 for one in fragments for file in one.files)
    print(f"version    {dataset.version}")
    print(f"rows       {dataset.count_rows():,}")
    print(f"fragments  {len(fragments):,}")
    print(f"data       {size:,} bytes")
    print(f"files      version {dataset.data_storage_version}")
    for field in dataset.schema:
        print(f"  {field.name}: {field.type}{'' if field.nullable else ' not null'}")
    return Exit.DONE


def versions(arguments: Namespace) -> Exit:
    """Print the versions, oldest first, and what is wrong with damaged ones."""
    for version in list_versions(open_table(arguments.path)):
        when = version.timestamp.astimezone().replace(tzinfo=None)
        damage = version.metadata.get("damaged")
        print(f"{version.version:>8}  {when}" + (f"  damaged: {damage}" if damage else ""))
    return Exit.DONE


def verify(arguments: Namespace) -> Exit:
    """Print missing, damaged, orphaned and misread files, even if the newest version is damaged."""
    try:
        dataset = LanceDataset(arguments.path)
    except CorruptFileError as error:
        whole = newest_sound(open_table(arguments.path))
        if whole is None:
            raise
        print(f"pilum: {error}", file=sys.stderr)
        dataset = LanceDataset(arguments.path, whole.version)
    report = dataset.verify(deep=arguments.deep)
    print(report)
    return Exit.DONE if report.is_valid else Exit.FAILED


def repair(arguments: Namespace) -> Exit:
    """Report damaged versions; on request restore an intact version or rename damaged ones."""
    store, path = open_table(arguments.path), arguments.path
    plan = plan_repair(store)
    for one in plan.damaged:
        print(f"version {one.name.version} is damaged: {one.what} ({one.name.path})")
    if arguments.restore:
        print(f"version {restore_whole(store, plan)} has the content of {_whole(plan)}")
        return Exit.DONE
    if arguments.set_aside:
        for moved in set_aside(store, plan):
            print(f"renamed to {moved}")
        return Exit.DONE
    print(_advice(plan, path))
    return Exit.FAILED if plan.damaged else Exit.DONE


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


def compact(arguments: Namespace) -> Exit:
    """Compact small fragments."""
    optimizer = LanceDataset(arguments.path).optimize
    metrics = optimizer.compact_files(target_rows_per_fragment=arguments.target_rows)
    print(json.dumps(asdict(metrics)))
    return Exit.DONE


def cleanup(arguments: Namespace) -> Exit:
    """Remove old versions, or report what would be removed."""
    dataset, age = LanceDataset(arguments.path), timedelta(days=arguments.older_than_days)
    unverified = arguments.delete_unverified
    if arguments.dry_run:
        print(dataset.cleanup_old_versions(age, delete_unverified=unverified, dry_run=True))
        return Exit.DONE
    print(json.dumps(asdict(dataset.cleanup_old_versions(age, delete_unverified=unverified))))
    left = dataset.explain_cleanup_old_versions(age, delete_unverified=unverified)
    for warning in left.warnings:
        print(f"pilum: {warning}", file=sys.stderr)
    return Exit.DONE
