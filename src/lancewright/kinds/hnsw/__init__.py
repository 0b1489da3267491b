"""Kind ``hnsw``: a graph of vectors in which each leads to its neighbours, also by metrics that Lance does not have."""
