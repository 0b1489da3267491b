"""The kinds Lance itself builds and reads."""
