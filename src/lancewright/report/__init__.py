"""Showing it: text for a terminal, HTML for a notebook."""
