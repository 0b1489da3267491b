"""A globally sorted BTree in Lance's own range-partitioned layout: sort keys, pages, lookup."""
