"""The command `pilum`: a look at tables, their upkeep, and jobs of Spark for schedulers."""
