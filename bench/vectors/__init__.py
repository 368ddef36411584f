"""Vectors: how long searches and builds take, and what they find, beside pylance and others.

    python -m bench.vectors [--rows N] [--dimension D] [--data clustered|uniform] [--page PAGE]

Each library builds its own indices on its own copy of the same table, with the same parameters.
Recall is measured against an exact search by numpy before anything is timed. Then the libraries
take turns. faiss and hnswlib are measured where they are installed, with vectors in memory and the
least effort that reaches the recall of pilum.
"""
