"""Kind ``composite``: rows sorted by several keys."""
