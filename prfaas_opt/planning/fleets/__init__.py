"""Planning and sizing of any number of clusters, links and models: one linear program over all paths."""
