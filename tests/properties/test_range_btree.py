"""Whatever the values and the question, a range-sorted BTree answers what a scan answers.

``LANCEWRIGHT_EXAMPLES`` sets the number of examples (300).
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader

import lancewright as lw
from properties.scalar_columns import COLUMN_TYPES, ColumnType
from support.tables import ids, plan_uses_index

EXAMPLES = int(os.environ.get("LANCEWRIGHT_EXAMPLES", "300"))


@dataclass(frozen=True, kw_only=True)
class World:
    """A table to write, an index to build over it, and questions to ask it."""

    column: ColumnType
    values: list[Any]
    rows_per_fragment: int
    deleted: str | None
    stable: bool
    nested: bool
    parameters: dict[str, Any]
    sure: list[str]
    questions: list[str]

    @property
    def path(self) -> str:
        return "outer.value" if self.nested else "value"


@st.composite
def worlds(draw: st.DrawFn) -> World:
    column = draw(st.sampled_from(COLUMN_TYPES))
    pool = draw(st.lists(column.values, min_size=1, max_size=draw(st.sampled_from([1, 3, 20, 60]))))
    holes = draw(st.sampled_from([0, 0, 1, 5, 100]))
    picked = draw(st.lists(st.integers(0, 99), min_size=1, max_size=140))
    values = [None if place < holes else pool[place % len(pool)] for place in picked]
    # Lance 14 cannot write some slices of a struct of booleans ("null_bit_buffer size too small").
    nested = draw(st.integers(0, 5)) == 0 and not pa.types.is_boolean(column.type)
    path = "outer.value" if nested else "value"
    atoms = draw(st.lists(_atoms(column, pool, path), min_size=3, max_size=8))
    rest = draw(st.lists(_compound(_atoms(column, pool, path)), min_size=2, max_size=6))
    size = draw(
        st.one_of(
            st.integers(1, 6).map(lambda count: {"ranges": count}),
            st.integers(1, 60).map(lambda count: {"rows_per_range": count}),
        )
    )
    return World(
        column=column,
        values=values,
        rows_per_fragment=draw(st.sampled_from([10, 33, 200])),
        deleted=draw(st.sampled_from([None, None, "id % 3 = 1", "id < 12"])),
        stable=draw(st.integers(0, 3)) == 0,
        nested=nested,
        parameters={"page_rows": draw(st.integers(1, 50)), **size},
        sure=[text for text, is_sure in atoms if is_sure],
        questions=[text for text, _ in atoms] + rest,
    )


@st.composite
def _atoms(draw: st.DrawFn, column: ColumnType, pool: list[Any], path: str) -> tuple[str, bool]:
    """A question and whether Lance surely asks an index about it."""
    values = st.one_of(st.sampled_from(pool), st.sampled_from(pool), column.values).map(column.literal)
    form = draw(st.sampled_from(["compare", "compare", "differ", "between", "in", "null", "like"]))
    # Lance's planner writes "flag = true" as "flag", and does not find an index for it inside a struct.
    is_sure = not pa.types.is_boolean(column.type)
    if form == "compare" or (form == "like" and not column.is_text):
        return f"{path} {draw(st.sampled_from(['=', '<', '<=', '>', '>=']))} {draw(values)}", is_sure
    if form == "differ":
        return f"{path} != {draw(values)}", False
    if form == "between":
        return f"{path} {draw(st.sampled_from(['', 'NOT ']))}BETWEEN {draw(values)} AND {draw(values)}", False
    if form == "in":
        listed = ", ".join(draw(st.lists(values, min_size=1, max_size=5)))
        return f"{path} {draw(st.sampled_from(['', 'NOT ']))}IN ({listed})", False
    if form == "null":
        return f"{path} IS {draw(st.sampled_from(['', 'NOT ']))}NULL", True
    start = draw(st.sampled_from(["a", "ab", "abcdefgh", "é", "b''", "zzz", "a" * 50]))
    return f"{path} LIKE '{start}%'", False


@st.composite
def _compound(draw: st.DrawFn, atoms: st.SearchStrategy[tuple[str, bool]]) -> str:
    first, second = draw(atoms)[0], draw(atoms)[0]
    other = f"id {draw(st.sampled_from(['<', '>=']))} {draw(st.integers(0, 140))}"
    form = draw(
        st.sampled_from(["NOT ({0})", "({0}) AND ({1})", "({0}) OR ({1})", "NOT (({0}) OR ({1}))",
                         "NOT (({0}) AND ({1}))", "({0}) AND {2}", "({0}) OR {2}", "(NOT ({0})) OR ({1}) AND {2}"])
    )  # fmt: skip
    return form.format(first, second, other)


def rows_of(world: World, values: list[Any], start: int = 0) -> pa.Table:
    """Rows with these values and ascending ids."""
    field: pa.Array = world.column.to_array(values)
    name = "value"
    if world.nested:
        # Every seventh struct is NULL itself, over a value that is not.
        mask = pa.array(np.arange(len(values)) % 7 == 3)
        field, name = pa.StructArray.from_arrays([field], names=["value"], mask=mask), "outer"
    return pa.table({"id": pa.array(np.arange(start, start + len(values))), name: field})


def write_world(world: World, uri: str) -> lance.LanceDataset:
    dataset = lance.write_dataset(
        rows_of(world, world.values),
        uri,
        max_rows_per_file=world.rows_per_fragment,
        enable_stable_row_ids=world.stable,
    )
    if world.deleted is not None:
        dataset.delete(world.deleted)
    return lance.dataset(uri)


def segment_files(uri: str) -> set[str]:
    return {path.name for path in (Path(uri) / "_indices").rglob("*.lance")}


@settings(
    max_examples=EXAMPLES, deadline=None, print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)  # fmt: skip
@given(world=worlds())
def test_answers_are_those_of_a_scan(world: World) -> None:
    with tempfile.TemporaryDirectory(prefix="lancewright-test-") as folder:
        uri = f"{folder}/table"
        if write_world(world, uri).count_rows() == 0:
            return

        lw.open(uri, progress=False).create_index(
            world.path, kind="btree", layout="range", **world.parameters
        )

        dataset = lance.dataset(uri)
        files = segment_files(uri)
        note(f"{files}")
        # Of several ranges only where no compaction can empty one.
        assert sum(name.startswith("part_") for name in files) <= (1 if world.stable else len(files) - 1)
        assert_no_part_is_empty(uri)
        wrong = [
            question
            for question in world.questions
            if ids(dataset, question, use_index=True) != ids(dataset, question, use_index=False)
        ]
        assert wrong == []
        assert [question for question in world.sure if not plan_uses_index(dataset, question)] == []


def assert_no_part_is_empty(uri: str) -> None:
    """No part without pages: Lance's reader dies on one."""
    (lookup,) = (Path(uri) / "_indices").rglob("page_lookup.lance")
    metadata = LanceFileReader(str(lookup)).metadata().schema.metadata
    if metadata[b"range_partitioned"] == b"true":
        pages = json.loads(metadata[b"page_num_per_range_partition"])
        assert pages
        assert all(count > 0 for _, count in pages)
