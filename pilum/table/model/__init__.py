"""The contents of one version of a table: the manifest, and the files that it names."""
