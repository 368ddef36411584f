"""Batches in, data files out: what fits a table, where files are cut, what stands beside them."""
