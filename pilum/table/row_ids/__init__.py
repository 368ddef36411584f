"""Stable row ids and the versions of rows: their sequences, and how commits complete them."""
