"""Names for versions: tags, branches and clones."""
