"""Kind ``spatial``: points in two columns, or geometries as WKB, found by where they are."""
