"""What each version has that the one before did not: for readers that follow a table."""
