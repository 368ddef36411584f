"""Data files of version 0.1, as Lance wrote them before 2.0. Source: docs/format/legacy.md."""
