"""Which column types each kind takes: whatever is accepted builds in Lance and answers like a scan."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import struct
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lancewright.errors import InvalidRequestError
from lancewright.kinds.lance_native.parameters import validate_parameters
from lancewright.kinds.lance_native.segments import build_segment
from lancewright.kinds.registry import find_kind, list_kinds
from unit.kinds.laboratory import column_of, commit

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 40
NUMBERS = [None if number % 9 == 4 else number % 13 for number in range(COUNT)]
TEXTS = [None if number is None else f"val {number:03d} word" for number in NUMBERS]
DAYS = [None if number is None else dt.date(2020, 1, 1) + dt.timedelta(number) for number in NUMBERS]
TIMES = [None if day is None else dt.datetime.combine(day, dt.time()) for day in DAYS]
DECIMALS = [None if number is None else decimal.Decimal(number) for number in NUMBERS]
POINTS = [None if number is None else struct.pack("<BIdd", 1, 1, number, 1.0) for number in NUMBERS]
TEXT_LITERAL, BYTES_LITERAL = "'val 005 word'", f"X'{b'val 005 word'.hex()}'"
DAY_LITERAL, TIME_LITERAL = "date '2020-01-06'", "timestamp '2020-01-06 00:00:00'"


def lists(values: list[Any], type_: pa.DataType) -> pa.Array:
    return pa.array([None if value is None else [value] for value in values], type_)


# Type, values, and a literal of the type; None where Lance's SQL has no way to write one.
INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
SCALARS: dict[str, tuple[pa.Array, str | None]] = {
    **{str(type_): (pa.array(NUMBERS, type_), "5") for type_ in INTEGERS},
    "float16": (pa.array([None if n is None else np.float16(n) for n in NUMBERS], pa.float16()), "5.0"),
    "float32": (pa.array(NUMBERS, pa.float32()), "5.0"),
    "float64": (pa.array(NUMBERS, pa.float64()), "5.0"),
    "bool": (pa.array([None if n is None else n % 2 == 1 for n in NUMBERS]), "true"),
    "string": (pa.array(TEXTS, pa.string()), TEXT_LITERAL),
    "large_string": (pa.array(TEXTS, pa.large_string()), TEXT_LITERAL),
    "string_view": (pa.array(TEXTS, pa.string_view()), TEXT_LITERAL),
    "binary": (pa.array(TEXTS, pa.string()).cast(pa.binary()), BYTES_LITERAL),
    "large_binary": (pa.array(TEXTS, pa.large_string()).cast(pa.large_binary()), BYTES_LITERAL),
    "fixed_size_binary": (pa.array([t and t[4:7].encode() for t in TEXTS], pa.binary(3)), None),
    "date32": (pa.array(DAYS, pa.date32()), DAY_LITERAL),
    "date64": (pa.array(DAYS, pa.date64()), DAY_LITERAL),
    **{
        f"timestamp_{unit}": (pa.array(TIMES, pa.timestamp(unit)), TIME_LITERAL)
        for unit in ("s", "ms", "us", "ns")
    },
    "timestamp_utc": (pa.array(TIMES, pa.timestamp("us", "UTC")), None),
    "time32": (pa.array(NUMBERS, pa.time32("ms")), "arrow_cast(5, 'Time32(Millisecond)')"),
    "time64": (pa.array(NUMBERS, pa.time64("ns")), "arrow_cast(5, 'Time64(Nanosecond)')"),
    "duration": (pa.array(NUMBERS, pa.duration("us")), "arrow_cast(5, 'Duration(Microsecond)')"),
    "decimal128": (pa.array(DECIMALS, pa.decimal128(10, 2)), "CAST(5 AS DECIMAL(10,2))"),
    "decimal256": (pa.array(DECIMALS, pa.decimal256(50, 2)), None),
    "dictionary": (pa.array(TEXTS).dictionary_encode(), TEXT_LITERAL),
}
NESTED: dict[str, pa.Array] = {
    "list<string>": lists(TEXTS, pa.list_(pa.string())),
    "large_list<string>": lists(TEXTS, pa.large_list(pa.string())),
    "list<int>": lists(NUMBERS, pa.list_(pa.int64())),
    "list<date>": lists(DAYS, pa.list_(pa.date32())),
    "list<list<string>>": lists([t and [t] for t in TEXTS], pa.list_(pa.list_(pa.string()))),
    "list<struct>": lists(
        [None if n is None else {"a": n} for n in NUMBERS], pa.list_(pa.struct([("a", pa.int64())]))
    ),
    "struct": pa.array([None if n is None else {"a": n} for n in NUMBERS], pa.struct([("a", pa.int64())])),
    "null": pa.nulls(COUNT),
    "json": pa.array([None if n is None else json.dumps({"a": n}) for n in NUMBERS], pa.json_()),
    "float vectors": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(COUNT * 8, dtype="f4")), 8),
    "byte vectors": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(COUNT * 8, dtype="u1")), 8),
    "int vectors": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(COUNT * 8, dtype="i4")), 8),
}
FLOAT_KINDS = [kind.name for kind in list_kinds() if kind.family == "vector"]
ACCEPTED_NESTED = {
    "list<string>": ["label_list", "inverted"],
    "large_list<string>": ["label_list", "inverted"],
    "list<int>": ["label_list"],
    "list<date>": ["label_list"],
    "list<list<string>>": ["inverted"],
    "json": ["inverted", "json"],
    "float vectors": FLOAT_KINDS,
    "byte vectors": ["ivf_flat", "ivf_hnsw_flat"],
}
NOT_HASHED = {"bool", "float16", "fixed_size_binary", "duration", "decimal128", "decimal256", "dictionary"}
STRINGS = {"string", "large_string", "string_view"}


def write(folder: Path, values: pa.Array, metadata: dict[str, str] | None = None) -> lance.LanceDataset:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("value", values.type, metadata=metadata)])
    table = pa.table([pa.array(range(COUNT)), values], schema=schema)
    return lance.write_dataset(table, str(folder / "t"), max_rows_per_file=COUNT // 2)


def accepting(dataset: lance.LanceDataset) -> list[str]:
    column = column_of(dataset)
    return [kind.name for kind in list_kinds() if kind.accepts(column) is None]


def build(dataset: lance.LanceDataset, kind_name: str) -> lance.LanceDataset:
    kind, column = find_kind(kind_name), column_of(dataset)
    parameters = validate_parameters(kind, column, {"path": "a"} if kind_name == "json" else {})
    return commit(
        dataset, [build_segment(dataset, kind, column, parameters, [part], "ix") for part in (0, 1)]
    )


@pytest.mark.parametrize("type_", SCALARS)
def test_scalar_types_are_accepted_by_the_kinds_that_answer_them_like_a_scan(
    tmp_path: Path, type_: str
) -> None:
    values, literal = SCALARS[type_]
    dataset = write(tmp_path, values)
    expected = {"btree", "bitmap", "zonemap"}
    expected |= set() if type_ in NOT_HASHED else {"bloomfilter"}
    expected |= {"ngram", "fm", "inverted", "minhash_lsh"} if type_ in STRINGS else set()

    accepted = accepting(dataset)

    assert set(accepted) == expected
    for kind in ("btree", "bitmap", "zonemap", *(["bloomfilter"] if "bloomfilter" in accepted else [])):
        indexed = build(dataset.checkout_version(1), kind) if dataset.version == 1 else dataset
        ordered = kind != "bloomfilter" and type_ != "bool"
        for predicate in predicates(literal, ordered=ordered):
            scanned = indexed.to_table(filter=predicate, use_scalar_index=False).num_rows
            assert indexed.count_rows(predicate) == scanned, (kind, predicate)
            assert scanned, predicate
        dataset = write(tmp_path / kind, values)


def predicates(literal: str | None, *, ordered: bool) -> list[str]:
    found = ["value IS NULL"]
    if literal is not None:
        found += [f"value = {literal}", f"value IN ({literal})"]
        found += [f"value < {literal}", f"value != {literal}"] if ordered else []
    return found


@pytest.mark.parametrize("type_", NESTED)
def test_nested_types_are_accepted_by_the_kinds_made_for_them(tmp_path: Path, type_: str) -> None:
    assert set(accepting(write(tmp_path, NESTED[type_]))) == set(ACCEPTED_NESTED.get(type_, []))


@pytest.mark.parametrize("type_", ["list<string>", "large_list<string>", "list<int>", "list<date>"])
def test_labels_of_every_accepted_type_are_found(tmp_path: Path, type_: str) -> None:
    literal = {"list<int>": "5", "list<date>": DAY_LITERAL}.get(type_, TEXT_LITERAL)
    indexed = build(write(tmp_path, NESTED[type_]), "label_list")

    found = indexed.count_rows(f"array_has_any(value, [{literal}])")

    assert found == NUMBERS.count(5)


@pytest.mark.parametrize("type_", ["string", "large_string", "string_view"])
@pytest.mark.parametrize("kind", ["ngram", "fm"])
def test_substrings_are_found_in_every_kind_of_string(tmp_path: Path, kind: str, type_: str) -> None:
    indexed = build(write(tmp_path, SCALARS[type_][0]), kind)

    assert indexed.count_rows("contains(value, '005')") == NUMBERS.count(5)


@pytest.mark.parametrize(
    "type_", ["string", "large_string", "list<string>", "large_list<string>", "list<list<string>>"]
)
def test_words_are_found_in_strings_and_lists_of_strings(tmp_path: Path, type_: str) -> None:
    values = NESTED[type_] if type_ in NESTED else SCALARS[type_][0]
    indexed = build(write(tmp_path, values), "inverted")

    found = indexed.scanner(full_text_query="word", columns=["id"]).to_table().num_rows

    assert found == COUNT - NUMBERS.count(None)


GEOMETRIES: dict[str, tuple[pa.Array, str]] = {
    "wkb": (pa.array(POINTS, pa.binary()), "geoarrow.wkb"),
    "large wkb": (pa.array(POINTS, pa.large_binary()), "geoarrow.wkb"),
    "wkt": (pa.array([None if n is None else f"POINT({n} 1)" for n in NUMBERS]), "geoarrow.wkt"),
    "point": (
        pa.StructArray.from_arrays(
            [pa.array([float(n or 0) for n in NUMBERS]), pa.array([1.0] * COUNT)], ["x", "y"]
        ),
        "geoarrow.point",
    ),
}


@pytest.mark.parametrize("form", GEOMETRIES)
def test_geometries_are_found_in_every_accepted_form(tmp_path: Path, form: str) -> None:
    values, extension = GEOMETRIES[form]
    indexed = build(write(tmp_path, values, {"ARROW:extension:name": extension}), "rtree")
    predicate = "st_intersects(value, st_geomfromtext('POLYGON((4 0,6 0,6 2,4 2,4 0))'))"

    assert (
        indexed.count_rows(predicate)
        == indexed.to_table(filter=predicate, use_scalar_index=False).num_rows
        > 0
    )


def test_a_column_that_does_not_fit_is_an_error_with_the_reason(tmp_path: Path) -> None:
    column = column_of(write(tmp_path, NESTED["struct"]))

    with pytest.raises(
        InvalidRequestError, match=r"'btree' cannot index column value: struct.* has no order"
    ):
        validate_parameters(find_kind("btree"), column, {})


def test_interleaved_geometry_is_refused(tmp_path: Path) -> None:
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(COUNT * 2, dtype="f8")), 2)
    column = column_of(write(tmp_path, values, {"ARROW:extension:name": "geoarrow.point"}))

    with pytest.raises(InvalidRequestError, match="interleaved"):
        validate_parameters(find_kind("rtree"), column, {})
