"""The change feed: which rows changed between two versions."""
