"""Lance: the only room, with ``kinds.lance_native``, that opens, reads and commits datasets."""

from lancewright.table.lance_compat import require_lance

try:
    from lance.file import LanceFileSession  # noqa: F401 - only to see whether it is there: 0.30 has none, 0.39 has
except ImportError:
    require_lance()  # the modules of this room could not be imported: say why
    raise
