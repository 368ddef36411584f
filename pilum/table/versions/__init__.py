"""Which versions of a table exist, and who decides on the next one."""
