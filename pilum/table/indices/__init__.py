"""Indices of a table: open their segments, build them, merge them, and follow rows that moved."""
