"""Makes tables for tests of queries: odd values, random indexes, and a life behind them: appended, deleted, updated, compacted.

A world is made from a seed, so that a failure can be looked at again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
from lance.indices import IndexConfig

import lancewright as lw

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.random import Generator

ROWS = 240
FRAGMENT_ROWS = 60
_UNINDEXED = 0.15
_SECOND = 0.25
INTS = [*range(-3, 12), 2**40]
FLOATS = [math.nan, -math.inf, -1.5, -0.0, 0.0, 0.25, 1.5, math.inf]
TEXTS = ["", "a", "ab", "abc", "abd", "b", "b%c", "b_c", "É", "zz", "it's", "zebra crossing"]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.string()),
        ("t", pa.timestamp("us")),
        ("b", pa.bool_()),
        ("l", pa.list_(pa.string())),
        ("n", pa.struct([("x", pa.int32()), ("odd name", pa.string())])),
        ("other", pa.int64()),
    ]
)
KINDS: dict[str, tuple[Any, ...]] = {
    "i": ("btree", "bitmap", "zonemap", "bloomfilter", "range"),
    "f": ("btree", "bitmap", "zonemap", "range"),
    "g": ("btree", "zonemap", "range"),
    "s": ("btree", "bitmap", "zonemap", "ngram", "fm", "range"),
    "t": ("btree", "zonemap"),
    "b": ("bitmap",),
    "l": ("label_list",),
    "n.x": ("btree", "bitmap"),
}


@dataclass(frozen=True)
class World:
    """A table, and what was done to it."""

    uri: str
    history: tuple[str, ...]


def make_world(folder: Path, seed: int) -> World:
    """A table with a random set of indexes, most of which no longer cover all of it."""
    random = np.random.default_rng(seed)
    uri = str(folder / f"world-{seed}")
    stable = bool(seed % 2)
    lance.write_dataset(
        _rows(random, ROWS, 0), uri, max_rows_per_file=FRAGMENT_ROWS, enable_stable_row_ids=stable
    )
    history = [f"seed {seed}", "stable row ids" if stable else "row addresses"]
    acts: list[Callable[[], str]] = [
        *(lambda column=column: _index(uri, column, random) for column in KINDS),
        *(
            lambda column=column: _index(uri, column, random, "_2")
            for column in "ifs"
            if random.random() < _SECOND
        ),
        *(lambda act=act: act(uri, random) for act in random.choice(np.array(_CHANGES, dtype=object), 5)),
    ]
    history += [acts[place]() for place in random.permutation(len(acts))]
    return World(uri=uri, history=tuple(history))


def _rows(random: Generator, count: int, start: int) -> pa.Table:
    def pick(values: list[Any], type_: pa.DataType, nulls: float = 0.12) -> pa.Array:
        chosen = [values[place] for place in random.integers(0, len(values), count)]
        return pa.array(chosen, type_, mask=random.random(count) < nulls)

    labels = [
        None
        if random.random() < 0.1
        else [TEXTS[place] for place in random.integers(0, 6, random.integers(0, 4))]
        for _ in range(count)
    ]
    nested = pa.StructArray.from_arrays(
        [pick([*range(6)], pa.int32()), pick(TEXTS, pa.string())], fields=list(SCHEMA.field("n").type)
    )
    return pa.table(
        [
            pa.array(range(start, start + count), pa.int64()),
            pick(INTS, pa.int64()),
            pick(FLOATS, pa.float64()),
            pick(FLOATS, pa.float32()),
            pick(TEXTS, pa.string()),
            pick([*range(0, 10**7, 10**6)], pa.timestamp("us")),
            pick([True, False], pa.bool_()),
            pa.array(labels, pa.list_(pa.string())),
            nested,
            pick([*range(10)], pa.int64()),
        ],
        schema=SCHEMA,
    )


def _index(uri: str, column: str, random: Generator, suffix: str = "") -> str:
    kind = KINDS[column][random.integers(0, len(KINDS[column]))] if random.random() > _UNINDEXED else None
    name = f"{column.replace('.', '_')}_index{suffix}"
    if kind is None:
        return f"no index on {column}"
    table = lw.open(uri, progress=False)
    if kind == "range":
        table.create_index(column, kind="btree", name=name, layout="range", ranges=3, page_rows=16)
    elif kind == "btree":
        lance.dataset(uri).create_scalar_index(column, IndexConfig("btree", {"zone_size": 16}), name=name)
    elif kind == "zonemap":
        table.create_index(column, kind="zonemap", name=name, rows_per_zone=16)
    else:
        try:
            table.create_index(column, kind=kind, name=name, segments=int(random.integers(1, 3)))
        except lw.UnsupportedError:
            return f"no {kind} on {column}: refused"
    return f"{kind} on {column}"


def _append(uri: str, random: Generator) -> str:
    lance.write_dataset(_rows(random, 40, 10_000 + int(random.integers(0, 10**6)) * 100), uri, mode="append")
    return "append"


def _delete(uri: str, random: Generator) -> str:
    value = int(random.integers(0, 12))
    lance.dataset(uri).delete(f"i = {value} OR other = {value % 10}")
    return f"delete i = {value} or other = {value % 10}"


def _update_indexed(uri: str, random: Generator) -> str:
    value = int(random.integers(0, 10))
    lance.dataset(uri).update({"i": "7", "s": "'ab'", "f": "0.25"}, where=f"other = {value}")
    return f"update i, s, f where other = {value}"


def _update_other(uri: str, random: Generator) -> str:
    value = int(random.integers(-3, 12))
    lance.dataset(uri).update({"other": "3"}, where=f"i = {value}")
    return f"update other where i = {value}"


def _rewrite_column(uri: str, random: Generator) -> str:
    dataset = lance.dataset(uri)
    fragments = dataset.get_fragments()
    fragment = fragments[random.integers(0, len(fragments))]
    ids = fragment.to_table(columns=["id"])["id"]
    if not len(ids):
        return "nothing to rewrite"
    column, value = [("i", 5), ("i", 5), ("s", "zz"), ("l", ["ab"])][random.integers(0, 4)]
    new = pa.table({"id": ids, column: pa.array([value] * len(ids), SCHEMA.field(column).type)})
    updated, fields = fragment.update_columns(new, left_on="id", right_on="id")
    operation = lance.LanceOperation.Update(updated_fragments=[updated], fields_modified=fields)
    lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)
    return f"rewrite column {column} of fragment {fragment.fragment_id}"


def _forget(uri: str, _random: Generator) -> str:
    lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0))
    return "clean up old versions"


def _delta(uri: str, _random: Generator) -> str:
    _optimize(uri, num_indices_to_merge=0)
    return "delta segments"


def _merge(uri: str, _random: Generator) -> str:
    _optimize(uri)
    return "optimize"


def _optimize(uri: str, **options: int) -> None:
    dataset = lance.dataset(uri)
    # Lance 14 fails on an index over a nested field: "No column with name x".
    names = [index.name for index in dataset.describe_indices() if "n_x" not in index.name]
    if names:
        dataset.optimize.optimize_indices(index_names=names, **options)


def _compact(uri: str, _random: Generator) -> str:
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=120)
    return "compact"


def _compact_deferred(uri: str, _random: Generator) -> str:
    dataset = lance.dataset(uri)
    if dataset.has_stable_row_ids:
        return "no deferred compaction with stable row ids"
    dataset.optimize.compact_files(target_rows_per_fragment=120, defer_index_remap=True)
    return "compact, remap deferred"


def _merge_insert(uri: str, random: Generator) -> str:
    dataset = lance.dataset(uri)
    known = dataset.to_table(columns=["id"])["id"].to_pylist()
    chosen = sorted({int(value) for value in random.choice(known, 20)})
    new = _rows(random, len(chosen), 0).set_column(0, "id", pa.array(chosen, pa.int64()))
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new)
    return f"merge {len(chosen)} rows"


_CHANGES = (
    _compact_deferred,
    _compact_deferred,
    _merge_insert,
    _append,
    _delete,
    _update_indexed,
    _update_other,
    _rewrite_column,
    _rewrite_column,
    _forget,
    _delta,
    _delta,
    _merge,
    _compact,
)
