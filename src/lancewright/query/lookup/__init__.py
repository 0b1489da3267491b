"""Finds the rows of many keys at once."""
