"""How fast, how small, how lean: pilum beside its peers, in one process, on the same columns.

    python -m bench --help

| Module | What |
|---|---|
| `shapes` | the columns that are measured |
| `peers` | one adapter per library, all with the same few verbs |
| `questions` | one file each: scan, take, write, size; memory, in processes of its own |
| `encodings` | how fast each encoding is, beside copying memory |
| `rounds` | who is timed when: round-robin, medians |
| `against` | this checkout beside an earlier one |
| `tables`, `spark`, `scale` | operations on tables; in Spark; in Spark, larger than memory |
| `report`, `machine` | the table on the screen, the JSON file |
"""
