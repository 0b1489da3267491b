"""The kinds that answer filters. Data only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lancewright.kinds.lance_native import trusted
from lancewright.kinds.lance_native.column_types import (
    accepts_geometry,
    accepts_hashed,
    accepts_json,
    accepts_labels,
    accepts_ordered,
    accepts_text,
)
from lancewright.kinds.lance_native.definition import NativeKind, Parameter, Trimming

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancewright.model.columns import Column

JSON_TARGETS = ("btree", "bitmap", "zonemap", "bloomfilter", "ngram", "fm")
# No query uses an index of booleans, so it would only cost.
JSON_TYPES = ("Int64", "Float64", "Utf8")
TEXT_TARGETS = ("ngram", "fm")
_KEY = re.compile(r"\w+\Z")


def _combine_json(_column: Column, parameters: Mapping[str, Any]) -> str | None:
    path, target, type_ = (
        parameters["path"],
        parameters["target_index_type"],
        parameters.get("target_data_type"),
    )
    if not _KEY.match(path):
        # Indexed as "$.b.c" or "b.c", json_get_int(j, 'b.c') = 5 found 51 rows; the scan, which takes the whole text
        # for one key, found none. Other signs make Lance fail.
        return f"path {path!r} is not one key of the outermost object (letters, digits, _); extract it into a column"
    if target in TEXT_TARGETS and type_ not in {None, "Utf8"}:
        return f"target_index_type={target!r} indexes strings, so target_data_type must be 'Utf8'"
    allowed = {parameter.name for kind in KINDS if kind.name == target for parameter in kind.parameters}
    allowed -= {parameter.name for parameter in _LAYOUT}
    unknown = sorted(set(parameters.get("target_index_parameters", {})) - allowed)
    if unknown:
        return (
            f"{target!r} has no parameter {', '.join(unknown)}; it has {', '.join(sorted(allowed)) or 'none'}"
        )
    return None


def _combine_btree(_column: Column, parameters: Mapping[str, Any]) -> str | None:
    if "zone_size" in parameters and "page_rows" in parameters:
        return "zone_size and page_rows mean the same; give one"
    if "ranges" in parameters and "rows_per_range" in parameters:
        return "ranges and rows_per_range decide the same; give one"
    only_ranged = [name for name in RANGE_PARAMETERS if name in parameters]
    if only_ranged and parameters.get("layout") == "fragment":
        return f"{only_ranged[0]} is for layout='range'"
    return None


RANGE_PARAMETERS = ("ranges", "rows_per_range", "task_memory_mib", "defer_remap", "keep_ranges")

# Lance takes zone_size=0, writes an index without a single row and answers nothing from it: hence low=1.
_ZONE_SIZE = Parameter(name="zone_size", type="int", low=1, high=2**31 - 1, doc="Rows per page (4096).")
_LAYOUT = (
    Parameter(
        name="layout",
        type="str",
        choices=("range", "fragment"),
        doc="Sorted as a whole, or by fragments (range, but fragment when several segments are asked for).",
    ),
    Parameter(name="page_rows", type="int", low=1, high=2**31 - 1, doc="Rows per page (4096)."),
    Parameter(
        name="rows_per_range",
        type="int",
        low=1,
        doc="Rows of one key range (4,000,000, fewer when they are wide).",
    ),
    Parameter(name="ranges", type="int", low=1, high=2**31 - 1, doc="How many key ranges."),
    Parameter(
        name="task_memory_mib", type="int", low=16, doc="Memory of a sorting task before it spills (512)."
    ),
    Parameter(
        name="defer_remap",
        type="bool",
        doc="Set the table to deferred remap, so that no compaction can empty a range (true).",
    ),
    Parameter(
        name="keep_ranges", type="bool", doc="Keep the ranges even where a compaction may empty one (false)."
    ),
)
_ROWS_PER_ZONE = Parameter(name="rows_per_zone", type="int", low=1, doc="Rows per zone (8192).")
_NUMBER_OF_ITEMS = Parameter(name="number_of_items", type="int", low=1, doc="Rows per filter (8192).")
_PROBABILITY = Parameter(
    name="probability", type="float", low=1e-9, high=0.999999, doc="False positives (0.00057)."
)

_ANYTHING = Trimming(alive=True, gone=True)  # every candidate is checked against the row itself
_NOTHING = Trimming(alive=False, gone=False)

BTREE = NativeKind(
    trusted=trusted.BTREE,
    name="btree", lance_name="btree", family="scalar", type_url="/lance.table.BTreeIndexDetails", index_version_max=1,
    parameters=(_ZONE_SIZE, *_LAYOUT), accepts=accepts_ordered, combine=_combine_btree,
    doc="Equality, ranges, IN, IS NULL and prefixes; many values.",
)  # fmt: skip
BITMAP = NativeKind(
    trusted=trusted.BITMAP,
    name="bitmap", lance_name="bitmap", family="scalar", type_url="/lance.table.BitmapIndexDetails",
    index_version_max=0, parameters=(), accepts=accepts_ordered, stale_on_update=True,
    trimming_on_stable_row_ids=_NOTHING,
    doc="Equality, ranges, IN and IS NULL; few values.",
)  # fmt: skip
LABEL_LIST = NativeKind(
    trusted=trusted.LABEL_LIST,
    name="label_list", lance_name="labellist", family="scalar", type_url="/lance.table.LabelListIndexDetails",
    index_version_max=1, parameters=(), accepts=accepts_labels, aliases=("labellist",), stale_on_update=True,
    trimming_on_stable_row_ids=_NOTHING, cleaned_by_merge=False,
    doc="array_has, array_has_any and array_has_all over lists.",
)  # fmt: skip
NGRAM = NativeKind(
    trusted=trusted.NGRAM,
    name="ngram", lance_name="ngram", family="scalar", type_url="/lance.table.NGramIndexDetails", index_version_max=0,
    parameters=(), accepts=accepts_text, trimming_on_addresses=_ANYTHING,
    trimming_on_stable_row_ids=_ANYTHING, doc="contains, LIKE and regexp_like with at least three letters.",
)  # fmt: skip
ZONEMAP = NativeKind(
    trusted=trusted.ZONEMAP,
    name="zonemap", lance_name="zonemap", family="scalar", type_url="/lance.table.ZoneMapIndexDetails",
    index_version_max=0, accepts=accepts_ordered, parameters=(_ROWS_PER_ZONE,), aliases=("zone_map",),
    doc="Least and greatest value per zone: tiny; good where the rows are nearly sorted.",
)  # fmt: skip
BLOOMFILTER = NativeKind(
    trusted=trusted.BLOOMFILTER,
    name="bloomfilter", lance_name="bloomfilter", family="scalar", type_url="/lance.index.pb.BloomFilterIndexDetails",
    index_version_max=0, accepts=accepts_hashed, aliases=("bloom_filter", "bloom"),
    parameters=(_NUMBER_OF_ITEMS, _PROBABILITY), doc="Equality and IN, with a few false candidates; small.",
)  # fmt: skip
RTREE = NativeKind(
    trusted=trusted.RTREE,
    name="rtree", lance_name="rtree", family="scalar", type_url="/lance.index.pb.RTreeIndexDetails",
    index_version_max=0, accepts=accepts_geometry, trimming_on_addresses=_ANYTHING,
    trimming_on_stable_row_ids=_ANYTHING, doc="st_intersects and st_within over geometries.",
    parameters=(Parameter(name="page_size", type="int", low=2, high=2**31 - 1, doc="Entries per node (4096)."),),
)  # fmt: skip
FM = NativeKind(
    trusted=trusted.FM,
    name="fm", lance_name="fm", family="scalar", type_url="/lance.index.pb.FMIndexDetails", index_version_max=10,
    parameters=(), accepts=accepts_text, cleaned_by_merge=False, follows_deferred_compaction=False,
    doc="contains for any substring.",
)  # fmt: skip
JSON = NativeKind(
    trusted=trusted.JSON,
    name="json", lance_name="json", family="scalar", type_url="/lance.index.pb.JsonIndexDetails", index_version_max=0,
    accepts=accepts_json, combine=_combine_json, mergeable=False, supports_stable_row_ids=False,
    stale_on_update=True, trimming_on_stable_row_ids=_NOTHING, cleaned_by_merge=False,
    doc="One key of a JSON column, for the json_get function of its type: json_get_int for Int64, and so on.",
    parameters=(
        Parameter(name="path", type="str", required=True, doc="The key, as queries name it: json_get_int(column, 'key')."),
        Parameter(name="target_index_type", type="str", choices=JSON_TARGETS, default="btree",
                  doc="The kind that indexes the values."),
        Parameter(name="target_index_parameters", type="mapping", doc="Parameters of that kind.",
                  schema=(_ZONE_SIZE, _ROWS_PER_ZONE, _NUMBER_OF_ITEMS, _PROBABILITY)),
        Parameter(name="target_data_type", type="str", choices=JSON_TYPES,
                  doc="Type of the values (that of the first value in the table)."),
    ),
)  # fmt: skip
KINDS = (BTREE, BITMAP, LABEL_LIST, NGRAM, ZONEMAP, BLOOMFILTER, RTREE, FM, JSON)
