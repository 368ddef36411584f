"""Deleting, updating and merging rows."""
