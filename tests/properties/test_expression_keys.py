"""Whatever the table went through, a condition on an expression that an index has as a key finds what Lance's own scan finds.

The oracle is pylance without indexes, asked for one condition at a time and for its NOT. ``LANCEWRIGHT_EXPRESSION_WORLDS`` sets
the number of tables (6), ``LANCEWRIGHT_KIND_EXAMPLES`` of filters for each (60).
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

import lance
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from lancewright.model.predicate import columns_of
from lancewright.query.plan import KindProbe, Probe
from lancewright.query.resolve import ScanRequest, plan_scan, resolve_scan
from lancewright.query.run import run_scan
from lancewright.query.settings import ScanSettings
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref
from support.kind_worlds import EXPRESSION_INDEXES, make_kind_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.query_worlds import World

WORLDS = int(os.environ.get("LANCEWRIGHT_EXPRESSION_WORLDS", "12"))
EXAMPLES = int(os.environ.get("LANCEWRIGHT_KIND_EXAMPLES", "60"))
SEED = int(os.environ.get("LANCEWRIGHT_SEED", "0"))
EAGER = ScanSettings(
    random_read_bytes=0, run_bytes=0, index_byte_weight=0.0, rows_per_task=7, scan_rows_per_task=90
)
asked: Counter[str] = Counter()

Tree: TypeAlias = "str | tuple[str, tuple[Tree, ...]]"

TEXTS = ["''", "'a'", "'ab'", "'AB'", "'é'", "'zz'", "'none'", "'it''s'", "NULL"]
NUMBERS = ["0", "1", "2", "7", "-1", "1.0", "2.5", "1099511627777", "99999999999999999999", "'3'", "NULL"]
MOMENTS = [
    "'1970-01-01 00:00:03'",
    "timestamp '1970-01-01 00:00:05'",
    "date '1970-01-01'",
    "'1970-01-01T00:00:02.5'",
]
SUBJECTS = {
    "lower(s)": TEXTS,
    "LOWER( S )": TEXTS,
    "upper(n.`odd name`)": TEXTS,
    "left(s, 1)": TEXTS,
    "coalesce(s, 'none')": TEXTS,
    "nullif(s, 'a')": TEXTS,
    "CAST(i AS STRING)": ["'1'", "'-1'", "'07'"],
    "i + 1": NUMBERS,
    "(i+1)": NUMBERS,
    "i % 3": NUMBERS,
    "abs(i)": NUMBERS,
    "length(s)": NUMBERS,
    "date_trunc('second', t)": MOMENTS,
}


@st.composite
def _condition(draw: st.DrawFn) -> str:
    subject = draw(st.sampled_from(sorted(SUBJECTS)))
    literal = st.sampled_from(SUBJECTS[subject])
    form = draw(st.sampled_from(["compare", "compare", "mirrored", "in", "between", "null", "text"]))
    match form:
        case "compare":
            return f"{subject} {draw(st.sampled_from(['=', '!=', '<', '<=', '>', '>=']))} {draw(literal)}"
        case "mirrored":
            return f"{draw(literal)} {draw(st.sampled_from(['=', '<', '>=']))} {subject}"
        case "in":
            items = ", ".join(draw(st.lists(literal, min_size=1, max_size=3)))
            return f"{subject} {draw(st.sampled_from(['IN', 'NOT IN']))} ({items})"
        case "between":
            return f"{subject} BETWEEN {draw(literal)} AND {draw(literal)}"
        case "null":
            return f"{subject} IS {draw(st.sampled_from(['NULL', 'NOT NULL']))}"
    patterns = [
        f"{name} LIKE '{head}'" for name in ("lower(s)", "left(s, 1)") for head in ("a%", "%b%", "z_")
    ]
    return draw(
        st.sampled_from(
            [*patterns, "starts_with(lower(s), 'a')", "starts_with(s, 'a')", "starts_with(s, 'a') = FALSE"]
        )
    )


ATOMS = st.one_of(
    _condition(),
    _condition(),
    _condition().map(lambda text: f"NOT ({text})"),
    st.sampled_from(["b", "NOT b", "i = 5", "i < 4", "n.x = 2", "s = 'zz'", "other < 5", "b IS NULL"]),
)
TREES: st.SearchStrategy[Tree] = st.recursive(
    ATOMS,
    lambda inner: st.tuples(
        st.sampled_from(["AND", "AND", "OR"]), st.lists(inner, min_size=2, max_size=3).map(tuple)
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module", params=range(SEED, SEED + WORLDS))
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_kind_world(tmp_path_factory.mktemp("worlds"), request.param, EXPRESSION_INDEXES, 9)


@pytest.fixture(scope="module")
def known(world: World) -> dict[str, frozenset[int] | None]:
    """What pylance answered of this table so far."""
    del world
    return {}


@given(TREES, st.sampled_from([EAGER, EAGER, EAGER, ScanSettings()]))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
def test_a_condition_on_an_expression_finds_what_lance_finds(
    world: World, known: dict[str, frozenset[int] | None], tree: Tree, chosen: ScanSettings
) -> None:
    where = _sql(tree)
    expected = _rows(world.uri, tree, known)
    if expected is None:
        return  # Lance cannot compare these, whatever the indexes
    note("; ".join(world.history))
    note(where)
    request = ScanRequest(where=where, columns=("_rowaddr",), settings=chosen, strict=True)
    planned = plan_scan(table_ref(world.uri), request, 2)
    note(str(planned.plan.portions))

    found = run_scan(resolve_scan(planned), LocalRunner())["_rowaddr"].to_pylist()

    assert sorted(found) == sorted(expected)
    asked.update(
        path
        for portion in planned.plan.portions
        for probe in _probes(portion.probe)
        for path in columns_of(probe.predicate)
        if "(" in path
    )


def test_expressions_were_asked_often(request: pytest.FixtureRequest) -> None:
    """After the test above, for all its tables."""
    run = [item for item in request.session.items if "finds_what_lance_finds" in item.name]
    if len(run) < WORLDS:
        pytest.skip("only some of the tables were asked")
    assert asked.total() >= WORLDS * EXAMPLES // 8
    assert len(asked) >= 9


def _sql(tree: Tree) -> str:
    if isinstance(tree, str):
        return tree
    word, parts = tree
    return f" {word} ".join(f"({_sql(part)})" for part in parts)


def _rows(uri: str, tree: Tree, known: dict[str, frozenset[int] | None]) -> frozenset[int] | None:
    if isinstance(tree, str):
        if tree not in known:
            known[tree] = _ask_lance(uri, tree)
        return known[tree]
    word, parts = tree
    found = [_rows(uri, part, known) for part in parts]
    sets = [one for one in found if one is not None]
    if len(sets) < len(found):
        return None
    return frozenset.intersection(*sets) if word == "AND" else frozenset.union(*sets)


def _ask_lance(uri: str, condition: str) -> frozenset[int] | None:
    scanner = lance.dataset(uri).scanner(
        columns=[], filter=condition, with_row_address=True, use_scalar_index=False
    )
    try:
        return frozenset(scanner.to_table()["_rowaddr"].to_pylist())
    except (OSError, ValueError):
        return None


def _probes(probe: Probe | None) -> Iterator[KindProbe]:
    if isinstance(probe, KindProbe):
        yield probe
    for part in getattr(probe, "parts", ()):
        yield from _probes(part)
