"""Small tables with one index of a kind that Lance builds, and conditions whose truth for each row is known without Lance."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import shapely

import lancewright as lw
from lancewright.model.predicate import to_lance_sql
from lancewright.testing import Case
from lancewright.testing.oracle import evaluate
from lancewright.testing.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.random import Generator

    Truths = tuple[bool | None, ...]

LONG = bool(os.environ.get("LANCEWRIGHT_LONG"))
ROWS = 120
FRAGMENT_ROWS = 30
_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
_ORDERED = (
    pa.int64(), pa.uint64(), pa.float64(), pa.float32(), pa.string(), _DICTIONARY, pa.timestamp("us"), pa.date32(),
    pa.bool_(), pa.binary(), pa.decimal128(10, 2),
)  # fmt: skip
_UNHASHED = {pa.bool_(), pa.decimal128(10, 2), _DICTIONARY}
_AREAS = ("POLYGON((2 2,9 2,9 9,2 9,2 2))", "POLYGON((0 0,1 0,1 1,0 0))", "POINT(3 3)")
_NEEDLES = ("", "b", "É", "ab", "zeb", "crossing", "bra c")
_PATTERNS = ("a%", "ab%", "%b%", "b_c", "z%g", "%", "%zebra%", "b\\%%")
_LABELS = ("a", "ab", "b", "zz")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How an index lies: in so many segments, with or without a fragment that no segment covers."""

    segments: int
    stable_row_ids: bool
    gap: bool = False

    def __str__(self) -> str:
        ids = "stable ids" if self.stable_row_ids else "addresses"
        return f"{self.segments} segments, {ids}{', a gap' if self.gap else ''}"


LAYOUTS = tuple(
    Layout(segments=segments, stable_row_ids=stable, gap=gap)
    for stable in (False, True)
    for segments, gap in ((1, True), (3, False))
)


@dataclass(frozen=True, kw_only=True)
class NativeCase:
    """A kind on a type of column."""

    kind: str
    type: pa.DataType
    parameters: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] | None = None

    def __str__(self) -> str:
        return " ".join([self.kind, str(self.type), *map(str, self.parameters.values())])


def _cases() -> Iterator[NativeCase]:
    for type_ in _ORDERED:
        yield NativeCase(kind="btree", type=type_, parameters={"layout": "fragment"})
        yield NativeCase(kind="bitmap", type=type_)
        yield NativeCase(kind="zonemap", type=type_, parameters={"rows_per_zone": 16})
        if type_ not in _UNHASHED:
            yield NativeCase(kind="bloomfilter", type=type_)
    yield NativeCase(kind="btree", type=pa.float64(), parameters={"layout": "range", "ranges": 3})
    for kind in ("ngram", "fm"):
        yield NativeCase(kind=kind, type=pa.string())
    yield NativeCase(kind="label_list", type=pa.list_(pa.string()))
    yield NativeCase(kind="rtree", type=pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb"})
    for target in ("btree", "bitmap", "zonemap", "bloomfilter"):
        yield NativeCase(
            kind="json",
            type=pa.json_(),
            parameters={"path": "a", "target_index_type": target, "target_data_type": "Int64"},
        )


CASES = tuple(_cases())


@dataclass(frozen=True)
class Judged:
    """A condition as text, and whether it is TRUE, FALSE or NULL for each row."""

    sql: str
    truths: Truths

    def rows(self, alive: frozenset[int]) -> list[int]:
        """The rows alive for which it is TRUE."""
        return [row for row, truth in enumerate(self.truths) if truth is True and row in alive]

    def negated(self) -> Judged:
        """NOT of it."""
        return Judged(f"NOT ({self.sql})", tuple(None if one is None else not one for one in self.truths))


def both(left: Judged, right: Judged) -> Judged:
    """AND of two."""
    pairs = zip(left.truths, right.truths, strict=True)
    truths = tuple(False if False in pair else None if None in pair else True for pair in pairs)
    return Judged(f"({left.sql}) AND ({right.sql})", truths)


def either(left: Judged, right: Judged) -> Judged:
    """OR of two."""
    joined = both(left.negated(), right.negated()).negated()
    return Judged(f"({left.sql}) OR ({right.sql})", joined.truths)


def tree(random: Generator, atoms: tuple[Judged, ...], depth: int = 2) -> Judged:
    """AND, OR and NOT over some of the atoms."""
    if depth == 0:
        return atoms[random.integers(0, len(atoms))]
    parts = [tree(random, atoms, depth - 1) for _ in range(random.integers(1, 4))]
    form = random.integers(0, 3)
    return parts[0].negated() if form == 0 else reduce(both if form == 1 else either, parts)


@dataclass(frozen=True, kw_only=True)
class NativeTable:
    """A table with one index, the rows that are left of it, and conditions on its column, alone and negated."""

    uri: str
    alive: frozenset[int]
    atoms: tuple[Judged, ...]

    def answer_of_lance(self, sql: str, *, use_index: bool = True) -> list[int]:
        """The rows that Lance finds by itself."""
        scanner = lance.dataset(self.uri).scanner(columns=["id"], filter=sql, use_scalar_index=use_index)
        return sorted(scanner.to_table()["id"].to_pylist())


def make_table(folder: str, case: NativeCase, layout: Layout, seed: int = 0) -> NativeTable:
    """Write the rows, build the index, delete some rows; with a gap, append a fragment after the build."""
    samples = Samples(seed)
    values = _values(case, samples)
    schema = pa.schema([("id", pa.int64()), pa.field("k0", values.type, metadata=case.metadata)])
    rows = pa.table([pa.array(range(ROWS)), values], schema=schema)
    uri = f"{folder}/table.lance"
    first = ROWS - FRAGMENT_ROWS if layout.gap else ROWS
    lance.write_dataset(
        rows.slice(0, first),
        uri,
        max_rows_per_file=FRAGMENT_ROWS,
        enable_stable_row_ids=layout.stable_row_ids,
    )
    # A range of the B-tree is no segment.
    segments = {} if case.parameters.get("layout") == "range" else {"segments": layout.segments}
    lw.open(uri, progress=False).create_index(
        "k0", kind=case.kind, name="tried", **segments, **case.parameters
    )
    if layout.gap:
        lance.write_dataset(rows.slice(first), uri, mode="append")
    lance.dataset(uri).delete("id % 7 = 2")
    atoms = tuple(_atoms(case, values, samples))
    return NativeTable(
        uri=uri,
        alive=frozenset(row for row in range(ROWS) if row % 7 != 2),
        atoms=(*atoms, *(atom.negated() for atom in atoms)),
    )


def _values(case: NativeCase, samples: Samples) -> pa.Array:
    """Values that come often and in no order, every seventh NULL or so."""
    nulls = samples.random.random(ROWS) < 0.15
    if case.kind == "rtree":
        places = samples.random.integers(0, 12, (ROWS, 2))
        return pa.array([shapely.Point(*place).wkb for place in places], pa.binary(), mask=nulls)
    if case.kind == "json":
        documents = [_document(samples.random) for _ in range(ROWS)]
        storage = pa.array(
            [None if gone else one for one, gone in zip(documents, nulls, strict=True)], pa.string()
        )
        return pa.ExtensionArray.from_storage(pa.json_(), storage)
    if case.kind == "label_list":
        labels = [
            [_LABELS[place] for place in samples.random.integers(0, 3, count % 4)] for count in range(ROWS)
        ]
        return pa.array([None if gone else one for one, gone in zip(labels, nulls, strict=True)], case.type)
    if case.kind in {"ngram", "fm"}:
        words = np.array(["", "a", "ab", "abc", "b%c", "b_c", "É", "zebra crossing", "xzebrax"], dtype=object)
        return pa.array(words[samples.random.integers(0, len(words), ROWS)], pa.string(), mask=nulls)
    (values,) = samples.rows(Case(types=(_plain(case.type),)), ROWS)
    return values.cast(case.type)


def _document(random: Generator) -> str:
    whole = int(random.integers(0, 6))
    return json.dumps(
        {"a": whole, "s": f"w{whole}", "b": {"c": whole}} if random.random() < 0.8 else {"s": "w1"}
    )


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _atoms(case: NativeCase, values: pa.Array, samples: Samples) -> Iterator[Judged]:
    if case.kind == "rtree":
        yield from _areas(values)
    elif case.kind == "json":
        yield from _of_documents(values)
    elif case.kind == "label_list":
        yield from _of_labels(values)
    elif case.kind in {"ngram", "fm"}:
        yield from _of_texts(values)
    else:
        yield from _comparisons(case, values, samples)
        if pa.types.is_string(_plain(case.type)):
            yield from _of_texts(values.cast(pa.string()))


def _comparisons(case: NativeCase, values: pa.Array, samples: Samples) -> Iterator[Judged]:
    plain = _plain(case.type)
    tried = Case(types=(plain,))
    columns = {"k0": values.cast(plain)}
    bounds = samples.bounds(tried)
    chosen = bounds if LONG else [bounds[place] for place in samples.random.permutation(len(bounds))[:14]]
    for predicate in (*chosen, *(samples.condition(tried) for _ in range(14))):
        yield Judged(to_lance_sql(predicate), tuple(evaluate(predicate, columns)))


def _of_texts(values: pa.Array) -> Iterator[Judged]:
    texts = values.to_pylist()
    for pattern in _PATTERNS:
        written = (
            re.escape(pattern).replace("\\\\%", "\0").replace("%", ".*").replace("_", ".").replace("\0", "%")
        )
        wanted = re.compile(written, re.DOTALL)
        yield _judge(
            f"k0 LIKE '{pattern}'", texts, lambda text, wanted=wanted: wanted.fullmatch(text) is not None
        )
    for needle in _NEEDLES:
        yield _judge(f"contains(k0, '{needle}')", texts, lambda text, needle=needle: needle in text)
        yield _judge(
            f"starts_with(k0, '{needle}')", texts, lambda text, needle=needle: text.startswith(needle)
        )
    for pattern in ("zeb.a", "b.c", "^a"):
        yield _judge(
            f"regexp_like(k0, '{pattern}')", texts, lambda text, wanted=pattern: bool(re.search(wanted, text))
        )


def _of_labels(values: pa.Array) -> Iterator[Judged]:
    rows = values.to_pylist()
    for label in _LABELS:
        yield _judge(f"array_has(k0, '{label}')", rows, lambda row, label=label: label in row)
    yield _judge("array_has_any(k0, ['ab', 'zz'])", rows, lambda row: bool({"ab", "zz"} & set(row)))
    yield _judge("array_has_all(k0, ['ab', 'b'])", rows, lambda row: {"ab", "b"} <= set(row))
    yield _judge("array_has_any(k0, ['zz'])", rows, lambda row: "zz" in row)


def _areas(values: pa.Array) -> Iterator[Judged]:
    shapes = [None if one is None else shapely.from_wkb(one) for one in values.to_pylist()]
    for text in _AREAS:
        area = shapely.from_wkt(text)
        for function, judge in (("st_intersects", shapely.intersects), ("st_within", shapely.within)):
            yield _judge(
                f"{function}(k0, st_geomfromtext('{text}'))",
                shapes,
                lambda shape, judge=judge, area=area: bool(judge(shape, area)),
            )
    yield _judge("k0 IS NULL", [shape is None for shape in shapes], lambda gone: gone)


def _of_documents(values: pa.Array) -> Iterator[Judged]:
    documents = [None if one is None else json.loads(one) for one in values.storage.to_pylist()]

    def under(key: str) -> list[Any]:
        return [None if one is None else one.get(key) for one in documents]

    yield _judge("json_get_int(k0, 'a') = 3", under("a"), lambda whole: whole == 3)
    yield _judge("json_get_int(k0, 'a') < 3", under("a"), lambda whole: whole < 3)
    yield _judge("json_get_float(k0, 'a') = 3.0", under("a"), lambda whole: whole == 3)
    yield _judge("json_get_string(k0, 's') = 'w1'", under("s"), lambda text: text == "w1")
    yield _judge("json_get_int(k0, 'b.c') = 3", under("b.c"), lambda whole: whole == 3)


def _judge(sql: str, values: list[Any], judge: Callable[[Any], bool]) -> Judged:
    return Judged(sql, tuple(None if value is None else judge(value) for value in values))
