"""Spark's SQL as far as lancewright reads it: statements about indexes, and tables and table functions in queries."""
