"""The version of this package, readable without importing the rest."""

__version__ = "0.1.0"
