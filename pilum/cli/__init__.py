"""The command `pilum`: looks into tables, maintains them, and runs Spark jobs for schedulers.

`main.py` runs a command, `app.py` lists all of them, and each group of commands is one file. The
facts that commands print are found by `pilum.inspection` and the library, and drawn by
`pilum.pictures`.
"""
