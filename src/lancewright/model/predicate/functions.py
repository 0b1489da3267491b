"""Which functions a filter may call, and which of them an index may answer."""

from __future__ import annotations

import difflib
from typing import NoReturn

from lancewright.errors import InvalidRequestError

# Functions whose truth an index may know, with how many arguments they take after the column.
INDEXED = {
    "starts_with": 1,
    "contains": 1,
    "regexp_like": 1,
    "contains_tokens": 1,
    "array_has": 1,
    "array_contains": 1,
    "array_has_any": 1,
    "array_has_all": 1,
    "st_intersects": 1,
    "st_within": 1,
    "st_dwithin": 2,
    "json_get_bool": 1,
}
# Functions whose value an index may know, to be compared with a literal.
INDEXED_VALUES = frozenset(
    {"json_get_string", "json_get_int", "json_get_float", "json_get_bool", "json_extract"}
)
_SYNONYMS = {
    "list_has": "array_has",
    "list_contains": "array_contains",
    "list_has_any": "array_has_any",
    "list_has_all": "array_has_all",
}
# What the planner of Lance 14 finds under these names, apart from what is refused below.
_KNOWN = frozenset(
    """
    abs acos acosh asin asinh atan atan2 atanh cbrt cos cosh cot degrees exp factorial gcd isnan iszero lcm ln log log10
    log2 nanvl pi pow power radians round signum sin sinh sqrt tan tanh trunc
    coalesce greatest ifnull least nullif nvl nvl2 is_valid
    ascii bit_length btrim char_length character_length chr concat concat_ws contains decode encode ends_with find_in_set
    initcap instr left length levenshtein lower lpad ltrim octet_length overlay repeat replace reverse right rpad rtrim
    split_part starts_with strpos substr_index substring_index to_hex translate upper contains_tokens
    regexp_count regexp_instr regexp_like regexp_match regexp_replace
    date_bin date_format date_part date_trunc datepart datetrunc from_unixtime make_date make_time to_char to_date
    to_local_time to_time to_timestamp to_timestamp_micros to_timestamp_millis to_timestamp_nanos to_timestamp_seconds
    to_unixtime
    array_any_value array_append array_cat array_concat array_contains array_dims array_distance array_distinct
    array_element array_empty array_except array_extract array_has array_has_all array_has_any array_indexof
    array_intersect array_join array_length array_max array_min array_ndims array_pop_back array_pop_front
    array_position array_positions array_prepend array_push_back array_push_front array_remove array_remove_all
    array_remove_n array_repeat array_replace array_replace_all array_replace_n array_resize array_reverse array_slice
    array_sort array_to_string array_union arrays_overlap arrays_zip cardinality empty flatten
    list_any_value list_append list_cat list_concat list_contains list_dims list_distance list_distinct list_element
    list_except list_extract list_has list_has_all list_has_any list_indexof list_intersect list_join list_length
    list_max list_ndims list_pop_back list_pop_front list_position list_positions list_prepend list_push_back
    list_push_front list_remove list_repeat list_replace list_resize list_reverse list_slice list_sort list_to_string
    list_union make_array make_list string_to_array string_to_list
    named_struct row struct map map_entries map_extract map_keys map_values element_at get_field
    digest md5 sha224 sha256 sha384 sha512 arrow_cast arrow_try_cast arrow_typeof
    json_extract json_get json_get_string json_get_int json_get_float json_get_bool json_exists json_array_contains
    json_array_length
    st_intersects st_within st_contains st_distance st_covers st_coveredby st_touches st_crosses st_overlaps st_equals
    st_disjoint st_dwithin st_distancesphere st_area st_length st_geomfromtext st_geomfromwkb st_point st_makepoint st_astext st_x st_y
    """.split()
)
_AGGREGATES = frozenset(
    """
    count sum avg mean min max median array_agg first_value last_value string_agg stddev stddev_pop stddev_samp var
    var_pop var_samp bool_and bool_or bit_and bit_or bit_xor approx_distinct approx_median corr covar_pop covar_samp
    row_number rank dense_rank percent_rank cume_dist lead lag ntile nth_value grouping
    """.split()
)
_CHANGING = frozenset({"random", "uuid", "now", "today", "current_date", "current_time", "current_timestamp"})


def is_changing(name: str) -> bool:
    """True for functions that give another value each time they are asked."""
    return name in _CHANGING


def canonical_name(name: str) -> str:
    """The name under which an index knows a function; raise for what no filter may call."""
    if name in _AGGREGATES:
        _refuse(
            f"Function {name} sees more than one row",
            "A filter sees one row: aggregate or rank after the scan.",
        )
    if name in _CHANGING:
        _refuse(
            f"Function {name} gives each task of a scan another value", "Compute the value and write it down."
        )
    if name not in _KNOWN:
        near = difflib.get_close_matches(name, _KNOWN, n=3)
        hint = (
            f"Did you mean {' or '.join(near)}?"
            if near
            else "See the filter page of the documentation for all."
        )
        _refuse(f"Function {name} is not one that a filter can call", hint)
    return _SYNONYMS.get(name, name)


def _refuse(problem: str, remedy: str) -> NoReturn:
    raise InvalidRequestError(problem, remedy)
