"""Vector indices: approximate search for the nearest vectors."""
