"""How the JVMs that tests start save CPU: they end before an optimizing compiler pays."""

from __future__ import annotations

__all__ = ["ENVIRONMENT", "OPTIONS"]

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ENVIRONMENT = {"JAVA_TOOL_OPTIONS": OPTIONS}
"""Gives the options to all JVMs of a process, those of Spark's daemons and executors included."""
