"""The facts that the command line shows, as frozen dataclasses: about tables, sizes and histories.

    summaries.py    which tables a folder contains, and what each of them is
    sizes.py        where the bytes are: columns, files, folders
    history.py      what each commit changed, and how two versions differ
    following.py    the rows that new versions add
    conversion.py   rows from and to Parquet, CSV and JSON
    queries.py      SQL over tables, through DuckDB
    timing.py       how fast a table is read on this machine

Nothing here prints, and nothing but `conversion.py` writes.
"""
