"""The command `pilum`: inspects and maintains tables, and runs Spark jobs for schedulers."""
