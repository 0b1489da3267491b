"""Running tasks, without saying where."""
