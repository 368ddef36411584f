"""Changes of rows and columns: delete, update, merge, add, cast."""
