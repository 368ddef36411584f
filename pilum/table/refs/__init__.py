"""Tags, branches and clones: names for versions, and tables made of others."""
