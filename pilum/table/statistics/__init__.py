"""What the columns of a table hold: counts, bounds, how many values differ."""
