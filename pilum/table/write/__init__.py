"""Write record batches to data files that no version contains yet."""
