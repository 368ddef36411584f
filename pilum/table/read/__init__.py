"""Reading of one version of a table: scans, random access, blobs, statistics."""
