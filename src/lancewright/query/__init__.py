"""Getting rows back: which index answers which part of a filter, which rows a task reads, what is scanned."""
