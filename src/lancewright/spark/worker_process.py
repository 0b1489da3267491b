"""What a Python worker of Spark does once, before its first task."""

from __future__ import annotations

import functools
import gc


@functools.cache
def freeze_imports() -> None:
    """Take what has been imported out of the garbage collector's sight, once per worker process.

    PySpark's daemon collects after every task. Over the modules of Lance, Arrow and pandas that is 90 ms, 80 % of the
    time of a small task; after this, under one.
    """
    gc.collect()
    gc.freeze()
