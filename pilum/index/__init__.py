"""Indices: files that find the rows of a condition or of a search without a scan.

    train ──▶ files of a segment ──▶ open ──▶ search ──▶ row references ──▶ the table reads the rows

Each type of index is one plugin (`base.py`) and one line of the registry (`registry.py`). A type
handles values and row references, but no table: `pilum.table.indices` reads the values, commits
segments, and translates references into rows.
"""
