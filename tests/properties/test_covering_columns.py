"""Whatever the table went through, rows out of an index's own files are those of the table, value by value.

``LANCEWRIGHT_COVERING_WORLDS`` sets the number of tables (6), ``LANCEWRIGHT_KIND_EXAMPLES`` of filters for each (60).
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from lancewright.model.predicate import (
    And,
    Comparison,
    InList,
    IsNull,
    Like,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
    to_lance_sql,
)
from lancewright.query.resolve import ScanRequest, plan_scan, resolve_scan
from lancewright.query.run import run_scan
from lancewright.query.settings import ScanSettings
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref
from support.kind_worlds import COVERING_INDEXES, make_kind_world
from support.kleene import evaluate
from support.query_worlds import FLOATS, INTS, TEXTS

if TYPE_CHECKING:
    from support.query_worlds import World

WORLDS = int(os.environ.get("LANCEWRIGHT_COVERING_WORLDS", "6"))
EXAMPLES = int(os.environ.get("LANCEWRIGHT_KIND_EXAMPLES", "60"))
SEED = int(os.environ.get("LANCEWRIGHT_SEED", "0"))
EAGER = ScanSettings(
    random_read_bytes=0, run_bytes=0, index_byte_weight=0.0, rows_per_task=7, scan_rows_per_task=90
)
COLUMNS = ("id", "i", "s", "f", "b", "t", "other")
covered: Counter[str] = Counter()


def _on(column: str, values: list[object], type_: pa.DataType) -> st.SearchStrategy[Predicate]:
    literals = st.sampled_from(values).map(lambda value: Literal(value=value, type=type_))
    return st.one_of(
        st.builds(Comparison, column=st.just(column), operator=st.sampled_from(Operator), literal=literals),
        st.builds(
            InList, column=st.just(column), literals=st.lists(literals, min_size=1, max_size=3).map(tuple)
        ),
        st.builds(IsNull, column=st.just(column)),
    )


ATOMS = st.one_of(
    _on("i", [*INTS], pa.int64()),
    _on("s", [*TEXTS], pa.string()),
    _on("b", [True, False], pa.bool_()),
    _on("f", [*FLOATS], pa.float64()),
    _on("other", [*range(10)], pa.int64()),
    st.builds(Like, column=st.just("s"), pattern=st.sampled_from(["a%", "%b%", "z%g"])),
)
# A key that leads an index, so that one is asked, and something more, which is often left to check.
LED = st.one_of(
    _on("i", [*range(6)], pa.int64()),
    _on("b", [True, False], pa.bool_()),
    _on("n.x", [*range(6)], pa.int32()),
)
PREDICATES = st.builds(
    lambda first, others, word: word(children=(first, *others)),
    LED,
    st.lists(st.one_of(ATOMS, ATOMS.map(lambda atom: Not(child=atom))), min_size=1, max_size=2),
    st.sampled_from([And, And, And, Or]),
)


@pytest.fixture(scope="module", params=range(SEED, SEED + WORLDS))
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_kind_world(tmp_path_factory.mktemp("worlds"), request.param, COVERING_INDEXES, 5)


@pytest.fixture(scope="module")
def rows(world: World) -> pa.Table:
    return lance.dataset(world.uri).to_table()


@given(PREDICATES, st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
def test_values_of_an_index_are_those_of_the_table(
    world: World, rows: pa.Table, predicate: Predicate, columns: list[str]
) -> None:
    note("; ".join(world.history))
    note(to_lance_sql(predicate))
    request = ScanRequest(bound=predicate, columns=tuple(columns), settings=EAGER, strict=True)
    scan = resolve_scan(plan_scan(table_ref(world.uri), request, 2))
    note(str([(task.fragments, task.values is not None) for task in scan.tasks]))

    found = run_scan(scan, LocalRunner())

    expected = rows.select(columns).filter(evaluate(predicate, rows))
    assert found.schema.names == columns
    assert _listed(found) == _listed(expected)
    covered.update("covered" if task.values is not None else "read" for task in scan.tasks)


def test_files_of_indexes_were_read_often(request: pytest.FixtureRequest) -> None:
    """After the test above, for all its tables."""
    run = [item for item in request.session.items if "are_those_of_the_table" in item.name]
    if len(run) < WORLDS:
        pytest.skip("only some of the tables were asked")
    assert covered["covered"] >= WORLDS * EXAMPLES // 10
    assert covered["read"] >= WORLDS * EXAMPLES // 10


def _listed(table: pa.Table) -> list[str]:
    """Rows as text, in which NaN is equal to itself and -0.0 is not 0.0."""
    return sorted(map(repr, zip(*(table[name].to_pylist() for name in table.column_names), strict=True)))
