"""Long-running table jobs on Spark, one kind per file; the public API is `pilum.spark`."""
