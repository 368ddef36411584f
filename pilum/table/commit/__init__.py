"""Turn changes into the next version of a table: operations, conflicts, publication."""
