"""From one version to rows: scans, takes, blobs, statistics."""
