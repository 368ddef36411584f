"""Deleted rows: which they are, and the files that list them."""
