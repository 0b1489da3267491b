"""What every kind must keep to: one function for each promise, called with a laboratory. The name is the promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewright.testing.checks import (
    build,
    definition,
    filters,
    formats,
    golden,
    many,
    merging,
    ranking,
    tables,
    useful,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lancewright.testing.laboratory import Laboratory

    Check = Callable[[Laboratory], None]

_MODULES = (definition, build, filters, many, merging, ranking, formats, golden, useful, tables)
CHECKS: Mapping[str, Check] = {
    name.removeprefix("check_"): check
    for module in _MODULES
    for name, check in vars(module).items()
    if name.startswith("check_")
}
OPTIONAL = frozenset(
    {
        "a_lookup_of_one_value_reads_a_small_part_of_the_segment",
        "a_golden_segment_of_the_format_written_is_kept",
    }
)
