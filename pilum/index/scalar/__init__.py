"""Indices of single values, and of the items of lists: one file per type."""
