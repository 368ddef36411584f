"""Frames that decide what to read when an action is called: `pilum.spark.table`.

The frame is one of Spark's; its plan names the whole table. An action runs a copy of the plan, in
which the scan of the table is replaced by a narrower one:

    plan of the frame                          plan that runs

    Project [q]                                Project [q]
    +- Filter (q > 3 AND f(name))              +- Filter (q > 3 AND f(name))
       +- table [id, name, q, text]               +- [NULL AS id, name, q, NULL AS text]
                                                     +- scan [name, q], filter q > 3

Spark evaluates every condition again. Columns that nothing uses are nulls, so the positions and
types of the others do not change. What is not understood is read as Spark would.

leaves       the scan of a table in a plan, and what a query uses of it
deciding     from uses to columns, filter and limit, and the frame that replaces the scan
answering    aggregates that tasks compute
classic      uses in the optimised plan of Spark; the copy of a plan, through the JVM
connect      the same for Spark Connect, whose plans are messages
messages     expressions of Spark Connect as Spark's SQL
frames       the classes of frames
tables       the functions of `pilum.spark`
"""
