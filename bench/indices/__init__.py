"""Indices: how long lookups, text queries and builds take, beside pylance.

    python -m bench.indices [--large] [--rows N] [--texts N] [--only PART] [--page docs/bench.md]

Each library builds its own indices on its own copy of the same table. Answers are compared before
anything is timed. Then the libraries take turns.
"""
