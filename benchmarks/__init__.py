"""Measurements: each prints a table and JSON. Not tests: nothing here fails because a machine is slow."""
