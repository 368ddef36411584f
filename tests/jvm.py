"""How the JVMs that tests start save processor time: they verify no classes, and compile little."""

from __future__ import annotations

__all__ = ["ENVIRONMENT", "OPTIONS"]

OPTIONS = " ".join(
    [
        "-XX:TieredStopAtLevel=1",  # they end before an optimizing compiler pays
        "-XX:+UseSerialGC",
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:-BytecodeVerificationRemote",  # a fifth of what starting Spark takes
    ]
)
ENVIRONMENT = {"JAVA_TOOL_OPTIONS": OPTIONS}
"""Gives the options to all JVMs of a process, those of Spark's daemons and executors included."""
