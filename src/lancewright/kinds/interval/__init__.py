"""Kind ``interval``: rows with a start and an end, found by a point they hold or a range they overlap."""
