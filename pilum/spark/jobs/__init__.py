"""Long work on tables as jobs of Spark, one kind per file; the door is `pilum.spark`."""
