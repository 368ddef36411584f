"""The versions of a table: how they are found, and how the next one is decided."""
