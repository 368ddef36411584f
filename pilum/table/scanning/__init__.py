"""Reading: scans, rows by number or id, blobs; from fragments and their files to batches."""
