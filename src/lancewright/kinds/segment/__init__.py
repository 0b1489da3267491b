"""The files of a segment of our own: header, checksums, row numbers, NULLs. What is in the kind's files is the kind's business."""
