"""How fast, how small, how lean: pilum beside its peers, in one process, on the same columns.

    python -m bench --help

| Module | What |
|---|---|
| `shapes`, `real` | the columns that are measured; the tables as users have them |
| `predicates` | filters, in the language of each library |
| `peers` | one adapter per library, all with the same few verbs |
| `questions` | one file each; memory and one core, in processes of their own |
| `goals`, `plots` | what is to be reached, and pictures |
| `encodings` | how fast each encoding is, beside copying memory |
| `rounds` | who is timed when: round-robin, medians |
| `against` | this checkout beside an earlier one |
| `indices`, `vectors` | indices: builds and look-ups; nearest neighbours, with goals and pictures |
| `tables`, `spark`, `scale` | operations on tables; in Spark; in Spark, larger than memory |
| `report`, `machine` | the table on the screen, the JSON file |
"""
