"""The kit as pytest tests: ``pytest --pyargs lancewright.testing.suite --index-kind NAME``."""
