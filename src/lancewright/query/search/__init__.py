"""Ranked search: nearest vectors, best matching texts, and both together."""
