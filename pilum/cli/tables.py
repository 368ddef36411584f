"""A look at one table, and its upkeep, without Spark."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict
from datetime import timedelta

from pilum.cli.outcome import Exit
from pilum.dataset.lance_dataset import LanceDataset

__all__ = ["cleanup", "compact", "info", "verify", "versions"]


def info(arguments: Namespace) -> Exit:
    """Prints the version, the numbers of rows, fragments and bytes, and the columns."""
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
    """Prints the versions, oldest first."""
    for version in LanceDataset(arguments.path).versions():
        print(f"{version['version']:>8}  {version['timestamp']}")
    return Exit.DONE


def verify(arguments: Namespace) -> Exit:
    """Prints what is missing, damaged, orphaned or misread by others."""
    report = LanceDataset(arguments.path).verify(deep=arguments.deep)
    print(report)
    return Exit.DONE if report.is_valid else Exit.FAILED


def compact(arguments: Namespace) -> Exit:
    """Writes small fragments together."""
    optimizer = LanceDataset(arguments.path).optimize
    metrics = optimizer.compact_files(target_rows_per_fragment=arguments.target_rows)
    print(json.dumps(asdict(metrics)))
    return Exit.DONE


def cleanup(arguments: Namespace) -> Exit:
    """Removes old versions, or says what would be removed."""
    dataset, age = LanceDataset(arguments.path), timedelta(days=arguments.older_than_days)
    if arguments.dry_run:
        print(dataset.cleanup_old_versions(age, dry_run=True))
    else:
        print(json.dumps(asdict(dataset.cleanup_old_versions(age))))
    return Exit.DONE
