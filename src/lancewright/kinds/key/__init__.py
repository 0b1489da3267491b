"""Kind ``key``: whole keys by their 64-bit hash."""
