"""One table with a column of its own for every scalar and text kind, and the filters each kind answers.

Two kinds never share a column: Lance would choose one of their indexes for a filter, and the other would go untested.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa

from lancewright.model.request import IndexRequest
from support.tables import WORDS, ids, plan_uses_index, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FRAGMENTS = 8
ROWS_PER_FRAGMENT = 250
DELETED_BEFORE, DELETED_AFTER = "id % 11 = 3", "id % 13 = 5"
_SYLLABLES = [head + tail for head in ("ba", "de", "fi", "go", "lu") for tail in ("ran", "sil", "tor", "ven")]
_SENTENCES = 40  # near duplicates are variations of so many sentences


@dataclass(frozen=True, kw_only=True)
class KindCase:
    """One index: ``served`` filters must be answered by it, ``unserved`` ones need only be answered rightly."""

    name: str
    kind: str
    source: str
    parameters: dict[str, Any] = field(default_factory=dict)
    served: tuple[str, ...] = ()
    unserved: tuple[str, ...] = ()
    on_stable_row_ids: bool = True

    def request(self, segments: int | None = None) -> IndexRequest:
        """Ask for this index, on the column of the same name."""
        return IndexRequest(
            column=self.name,
            kind=self.kind,
            name=f"{self.name}_idx",
            parameters=self.parameters,
            segments=segments,
        )


def _ordered(value: str, low: str, middle: str, high: str) -> dict[str, tuple[str, ...]]:
    """Filters by what an index must know to answer them: points, ranges, or all but some values."""
    return {
        "points": (
            f"{value} = {middle}",
            f"{value} IN ({low}, {middle}, {high})",
            f"{value} IS NULL",
            f"{value} IS NULL OR {value} = {middle}",
            f"{value} = {middle} AND id < 900",
        ),
        "ranges": (
            f"{value} < {low}",
            f"{value} <= {low}",
            f"{value} > {high}",
            f"{value} >= {high}",
            f"{value} BETWEEN {low} AND {high}",
            f"{value} NOT BETWEEN {low} AND {high}",
            f"{value} IS NOT NULL",
            f"NOT ({value} < {middle})",
            f"{value} < {low} OR {value} > {high}",
            f"{value} > {low} AND id < 900",
        ),
        "complements": (
            f"{value} != {middle}",
            f"{value} NOT IN ({low}, {middle}, {high})",
            f"NOT ({value} = {middle})",
        ),
        "mixtures": (f"{value} = {middle} OR id < 50",),
    }


_BOUNDS = {
    "number": ("100", "250", "700"),
    "amount": ("-1.0", "0.0", "1.5"),
    "category": ("'beta'", "'gamma'", "'kappa'"),
    "at": tuple(f"timestamp '1970-01-01 00:{minute}:00'" for minute in ("05", "10", "20")),
    "document": ("3", "7", "15"),
}
_SERVED_BY = {
    "btree": ("points", "ranges", "complements"),
    "bitmap": ("points", "ranges", "complements"),
    "zonemap": ("points", "ranges"),
    "bloomfilter": ("points",),
}


def _compared(name: str, kind: str, source: str, *more: str, **parameters: Any) -> KindCase:
    """An index over ordered values; ``more`` are further filters it serves."""
    is_json = kind == "json"
    value = f"json_get_int({name}, 'a')" if is_json else name
    target = parameters.get("target_index_type", "btree") if is_json else kind
    filters = _ordered(value, *_BOUNDS[source])
    served = [filter_ for group in _SERVED_BY[target] for filter_ in filters.pop(group)]
    return KindCase(
        name=name,
        kind=kind,
        source=source,
        parameters=parameters,
        served=(*served, *more),
        unserved=tuple(filter_ for group in filters.values() for filter_ in group),
        on_stable_row_ids=not is_json or target == "bitmap",
    )


def _containing(column: str) -> tuple[str, ...]:
    return (
        f"contains({column}, 'alpha')",
        f"contains({column}, 'ta gam')",
        f"contains({column}, 'doc17')",
        f"contains({column}, 'nowhere')",
        f"contains({column}, 'alpha') OR contains({column}, 'beta')",
        f"contains({column}, 'theta') AND id < 900",
    )


def _box(west: float, south: float, east: float, north: float) -> str:
    ring = f"{west} {south},{east} {south},{east} {north},{west} {north},{west} {south}"
    return f"st_geomfromtext('POLYGON(({ring}))')"


CASES = (
    _compared("btree_number", "btree", "number", zone_size=64),
    _compared("btree_amount", "btree", "amount"),
    _compared("btree_at", "btree", "at"),
    _compared(
        "btree_category",
        "btree",
        "category",
        "btree_category LIKE 'ga%'",
        "starts_with(btree_category, 'be')",
    ),
    _compared("bitmap_category", "bitmap", "category"),
    _compared("bitmap_number", "bitmap", "number"),
    _compared("zonemap_number", "zonemap", "number", rows_per_zone=32),
    _compared("zonemap_at", "zonemap", "at", rows_per_zone=32),
    _compared("zonemap_category", "zonemap", "category", "zonemap_category LIKE 'ga%'", rows_per_zone=32),
    _compared("bloomfilter_number", "bloomfilter", "number", number_of_items=32),
    _compared("bloomfilter_category", "bloomfilter", "category", number_of_items=32, probability=0.01),
    _compared("json_btree", "json", "document", path="a"),
    _compared("json_bitmap", "json", "document", path="a", target_index_type="bitmap"),
    _compared(
        "json_zonemap",
        "json",
        "document",
        path="a",
        target_index_type="zonemap",
        target_index_parameters={"rows_per_zone": 32},
    ),
    _compared("json_bloomfilter", "json", "document", path="a", target_index_type="bloomfilter"),
    KindCase(
        name="label_list",
        kind="label_list",
        source="tags",
        served=(
            "array_has(label_list, 'alpha')",
            "array_contains(label_list, 'beta')",
            "array_has_any(label_list, ['alpha', 'zeta'])",
            "array_has_all(label_list, ['alpha', 'beta'])",
            "NOT array_has(label_list, 'alpha')",
            "array_has(label_list, 'nowhere')",
            "array_has(label_list, 'alpha') OR array_has(label_list, 'beta')",
            "array_has(label_list, 'alpha') AND id < 900",
        ),
        unserved=("label_list IS NULL", "array_has_any(label_list, [])"),
    ),
    KindCase(
        name="ngram",
        kind="ngram",
        source="text",
        served=(
            *_containing("ngram"),
            "ngram LIKE '%alpha%'",
            "ngram LIKE 'alpha%'",
            "ngram LIKE '%doc17'",
            "starts_with(ngram, 'beta')",
        ),
        unserved=(
            "contains(ngram, 'al')",
            "NOT contains(ngram, 'alpha')",
            "contains(ngram, '')",
            "ngram IS NULL",
        ),
    ),
    # Only positive contains with something to look for is right: see tests/behaviour/test_upstream_limits.py.
    KindCase(
        name="fm",
        kind="fm",
        source="text",
        served=(*_containing("fm"), "contains(fm, 'al')"),
        unserved=("fm LIKE '%alpha%'", "fm NOT LIKE '%alpha%'", "fm IS NULL"),
    ),
    KindCase(
        name="rtree",
        kind="rtree",
        source="shape",
        parameters={"page_size": 16},
        served=(
            f"st_intersects(rtree, {_box(1, 1, 4, 4)})",
            f"st_within(rtree, {_box(2, 3, 9, 7)})",
            f"st_intersects(rtree, {_box(1, 1, 2, 2)}) OR st_intersects(rtree, {_box(5, 5, 6, 6)})",
            f"st_intersects(rtree, {_box(1, 1, 4, 4)}) AND id < 900",
            f"st_intersects(rtree, {_box(20, 20, 30, 30)})",
            "rtree IS NULL",
        ),
        unserved=(f"NOT st_intersects(rtree, {_box(1, 1, 4, 4)})",),
    ),
    # Lance answers contains_tokens from an index only when its tokens are the words as they stand.
    KindCase(
        name="words",
        kind="inverted",
        source="text",
        parameters={
            "stem": False,
            "remove_stop_words": False,
            "ascii_folding": False,
            "max_token_length": None,
        },
        served=(
            "contains_tokens(words, 'alpha')",
            "contains_tokens(words, 'alpha beta')",
            "contains_tokens(words, 'doc17')",
            "NOT contains_tokens(words, 'alpha')",
        ),
        unserved=("words IS NULL",),
    ),
    # Searched, not filtered: tests/spark/test_text_answers.py.
    KindCase(name="inverted", kind="inverted", source="text", parameters={"with_position": True}),
    KindCase(
        name="minhash_lsh",
        kind="minhash_lsh",
        source="sentence",
        parameters={"num_hashes": 128, "num_bands": 32, "shingle_size": 2},
    ),
)


FILTERED_KINDS = sorted({case.kind for case in CASES if case.served})


def cases_for(*, stable_row_ids: bool) -> tuple[KindCase, ...]:
    """The indexes a table in this row-id mode can have."""
    return tuple(case for case in CASES if case.on_stable_row_ids or not stable_row_ids)


def kind_rows(count: int, *, start: int = 0) -> pa.Table:
    """Rows with one column per case, and ``id`` and ``vector`` beside them."""
    table = rows(count, start=start)
    sources = {name: table.schema.field(name).with_name(name) for name in table.column_names}
    values: dict[str, Any] = {name: table[name] for name in table.column_names}
    values |= {
        "amount": _floats(table["amount"]),
        "document": _documents(count, start),
        "text": _texts(count, start),
        "sentence": pa.array([make_sentence(number) for number in range(start, start + count)]),
    }
    fields = [pa.field("id", pa.int64()), sources["vector"]]
    columns = [table["id"], table["vector"]]
    for case in CASES:
        column = values[case.source]
        metadata = sources[case.source].metadata if case.source in sources else None
        fields.append(pa.field(case.name, column.type, metadata=metadata))
        columns.append(column)
    return pa.table(columns, schema=pa.schema(fields))


def write_kind_table(
    uri: str, *, stable_row_ids: bool = False, vector_columns: Sequence[str] = ()
) -> lance.LanceDataset:
    """Write eight fragments and delete rows from each; ``vector_columns`` are copies of the column ``vector``."""
    table = kind_rows(FRAGMENTS * ROWS_PER_FRAGMENT)
    for name in vector_columns:
        table = table.append_column(name, table["vector"])
    lance.write_dataset(
        table,
        uri,
        max_rows_per_file=ROWS_PER_FRAGMENT,
        enable_stable_row_ids=stable_row_ids,
    ).delete(DELETED_BEFORE)
    return lance.dataset(uri)


def change_after_build(uri: str) -> lance.LanceDataset:
    """Append one fragment that no index covers and delete more rows everywhere."""
    lance.write_dataset(kind_rows(ROWS_PER_FRAGMENT, start=100_000), uri, mode="append")
    lance.dataset(uri).delete(DELETED_AFTER)
    return lance.dataset(uri)


def make_sentence(number: int) -> str | None:
    """One of a few sentences, mostly with one word changed; sometimes NULL."""
    words = list(np.random.default_rng(number % _SENTENCES).choice(_SYLLABLES, 12))
    random = np.random.default_rng(1_000_000 + number)
    if random.random() < 0.7:
        words[random.integers(0, 12)] = random.choice(_SYLLABLES)
    return None if random.random() < 0.05 else " ".join(words)


def wrong_filters(dataset: lance.LanceDataset, filters: Sequence[str]) -> list[str]:
    """Those filters that pylance answers otherwise with scalar indexes than without."""

    def differs(filter_: str) -> bool:
        return ids(dataset, filter_, use_index=True) != ids(dataset, filter_, use_index=False)

    return _those(filters, differs)


def unplanned_filters(dataset: lance.LanceDataset, filters: Sequence[str]) -> list[str]:
    """Those filters that pylance plans without asking a scalar index."""
    return _those(filters, lambda filter_: not plan_uses_index(dataset, filter_))


def _those(filters: Sequence[str], test: Callable[[str], bool]) -> list[str]:
    return [filter_ for filter_ in filters if test(filter_)]


def _floats(column: pa.ChunkedArray) -> pa.Array:
    """The same NULLs, with every special float mixed in."""
    values = np.nan_to_num(column.to_numpy())
    for place, special in enumerate((np.nan, -0.0, 0.0, np.inf, -np.inf)):
        values[place::17] = special
    return pa.array(values, mask=column.is_null().to_numpy())


def _documents(count: int, start: int) -> pa.Array:
    """JSON with a number under ``a``, and every way of not having one."""

    def document(number: int) -> str | None:
        holes = {0: None, 1: json.dumps({"b": 1}), 2: json.dumps({"a": None})}
        return holes.get(number % 19, json.dumps({"a": number % 20}))

    return pa.array([document(number) for number in range(start, start + count)], pa.json_())


def _texts(count: int, start: int) -> pa.Array:
    """Texts of unequal length, and a word that only one fragment has: BM25 depends on both."""
    random = np.random.default_rng(start)
    numbers = range(start, start + count)
    texts = [" ".join([*random.choice(WORDS, random.integers(1, 20)), f"doc{number}"]) for number in numbers]
    texts = [
        f"{text} rare" if 500 <= number < 520 else text for number, text in zip(numbers, texts, strict=True)
    ]
    return pa.array(texts, mask=random.random(count) < 0.05)
