"""What one version of a table consists of: the manifest, and the files it names."""
