"""Compaction, cleanup and checks."""
