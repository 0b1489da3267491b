"""Spark: the only room that imports pyspark. DataFrame APIs only, so that Spark Connect works as well as classic."""
