"""Upkeep of a table: compaction, cleanup and checks."""
