"""Feature flags: the features that a reader or writer of a table must support.

A manifest has a reader word and a writer word, with one bit per feature. A reader refuses a table
if the reader word has an unknown bit. A writer refuses unknown bits in either word, because it
would lose data that it does not understand. Source: docs/format/table.md, "Feature flags".
"""

from __future__ import annotations

from enum import IntFlag

__all__ = ["SUPPORTED", "Feature"]


class Feature(IntFlag):
    """The features that are known by name."""

    DELETION_FILES = 1
    STABLE_ROW_IDS = 2
    V2_FORMAT_DEPRECATED = 4
    TABLE_CONFIG = 8
    BASE_PATHS = 16
    NO_TRANSACTION_FILE = 32
    DATA_OVERLAY_FILES = 64
    COVERING_INDEX_FIELDS = 128
    MIXED_DATA_FILE_VERSIONS = 256
    FRAGMENT_REUSE_WITH_STABLE_ROW_IDS = 512
    TAGGED_FRAGMENT_REUSE_INDEX = 1024
    SPILLED_ROW_LINEAGE = 2048
    MANAGED_BLOBS = 16384
    NON_REUSABLE_FIELD_IDS = 32768
    ZONE_WRITE_SEEDS = 65536


SUPPORTED = (
    Feature.DELETION_FILES
    | Feature.STABLE_ROW_IDS
    | Feature.V2_FORMAT_DEPRECATED
    | Feature.TABLE_CONFIG
    | Feature.BASE_PATHS
    | Feature.NO_TRANSACTION_FILE
    | Feature.DATA_OVERLAY_FILES
    | Feature.COVERING_INDEX_FIELDS
    | Feature.MIXED_DATA_FILE_VERSIONS
    | Feature.SPILLED_ROW_LINEAGE
    | Feature.MANAGED_BLOBS
    | Feature.NON_REUSABLE_FIELD_IDS
)
"""The features that this library reads and preserves."""
