"""Columns that come, go, and change their type."""
