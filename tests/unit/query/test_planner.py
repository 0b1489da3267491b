"""What a plan asks, scans and checks, on snapshots made by hand; whether the rows are right is tested on real tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from lancewright.model.predicate import (
    And,
    Comparison,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
    simplify,
    to_negation_normal_form,
)
from lancewright.model.row_set import row_set
from lancewright.query.answers import PortionAnswer
from lancewright.query.costs import Widths
from lancewright.query.plan import Both, Either, NativeProbe, QueryPlan, Reason, ZoneProbe
from lancewright.query.planner import PlanInput, plan_query
from lancewright.query.settings import ScanSettings
from lancewright.query.statistics import IndexStatistics, PageTable, ZoneTable
from lancewright.query.tasks import ScanTask, TaskInput, plan_tasks
from lancewright.query.trust import Doubt
from support.values import fragment, segment, snapshot

EAGER = ScanSettings(random_read_bytes=0, run_bytes=0, index_byte_weight=0.0)
WIDTHS = Widths(filtered=(8,), both=(), returned=(8,))
ROWS = 1000
ZONEMAP = "/lance.table.ZoneMapIndexDetails"
BITMAP = "/lance.table.BitmapIndexDetails"
NGRAM = "/lance.table.NGramIndexDetails"


def compare(column: str, operator: str, value: int) -> Comparison:
    return Comparison(
        column=column, operator=Operator(operator), literal=Literal(value=value, type=pa.int64())
    )


def table(*segments: Any, fragments: int = 4, **changes: Any) -> Any:
    return snapshot([fragment(id_, ROWS) for id_ in range(fragments)], segments, **changes)


def plan(of: Any, predicate: Predicate | None, **changes: Any) -> QueryPlan:
    given_: dict[str, Any] = {"widths": WIDTHS, "statistics": IndexStatistics(), "settings": EAGER, **changes}
    normal = None if predicate is None else simplify(to_negation_normal_form(predicate))
    return plan_query(of, PlanInput(predicate=normal, **given_))


def reasons(planned: QueryPlan) -> dict[str, Reason]:
    return {note.index: note.reason for note in planned.notes}


ID = segment(range(4), "id_index")
OTHER = segment(range(4), "other_index", field_ids=(1,))


def test_a_covered_condition_is_asked_for_and_leaves_nothing_to_check() -> None:
    planned = plan(table(ID), compare("id", "=", 5))

    (portion,) = planned.portions
    assert portion.probe == NativeProbe(predicate=compare("id", "=", 5), indexes=frozenset({"id_index"}))
    assert portion.residual is None
    assert reasons(planned) == {"id_index": Reason.USED}


def test_a_gap_costs_only_its_own_fragments() -> None:
    planned = plan(table(segment([0, 2], "id_index")), compare("id", "=", 5))

    assert [(set(one.fragments), one.probe is None) for one in planned.portions] == [
        ({0, 2}, False),
        ({1, 3}, True),
    ]
    assert planned.scanned[0].residual == compare("id", "=", 5)


def test_two_indexes_of_an_and_are_one_question_and_the_rest_is_checked() -> None:
    both = And(children=(compare("id", "=", 5), compare("other", "=", 6), IsNull(column="third")))

    (portion,) = plan(table(ID, OTHER), both).portions

    assert isinstance(portion.probe, NativeProbe)
    assert portion.probe.indexes == {"id_index", "other_index"}
    assert portion.residual == IsNull(column="third")


def test_an_or_is_answered_only_when_every_branch_is() -> None:
    whole = Or(children=(compare("id", "=", 5), compare("other", "=", 6)))

    assert plan(table(ID, OTHER), whole).probed
    planned = plan(table(ID), whole)
    assert not planned.probed
    assert reasons(planned) == {"id_index": Reason.OR_BRANCH_UNINDEXED}


def test_a_range_is_one_question() -> None:
    between = And(children=(compare("id", ">", 5), compare("id", "<", 9)))

    (portion,) = plan(table(ID), between).portions

    assert portion.probe == NativeProbe(predicate=between, indexes=frozenset({"id_index"}))


def test_what_a_zone_map_names_is_checked_and_not_complemented() -> None:
    zones = table(segment(range(4), "zones", type_url=ZONEMAP))

    (portion,) = plan(zones, compare("id", "=", 5)).portions
    assert portion.probe == ZoneProbe(predicate=compare("id", "=", 5), index="zones")
    assert portion.residual == compare("id", "=", 5)
    unanswered = plan(zones, Not(child=IsNull(column="id")))
    assert not unanswered.probed
    assert reasons(unanswered) == {"zones": Reason.INEXACT_UNDER_NOT}


def test_zones_and_native_answers_are_combined() -> None:
    mixed = table(segment(range(4), "zones", type_url=ZONEMAP), OTHER)
    atoms = (compare("id", "=", 5), compare("other", "=", 6))

    (conjunction,) = plan(mixed, And(children=atoms)).portions
    (disjunction,) = plan(mixed, Or(children=atoms)).portions

    assert isinstance(conjunction.probe, Both)
    assert conjunction.residual == atoms[0]
    assert isinstance(disjunction.probe, Either)
    assert disjunction.residual == Or(children=atoms)


def test_zones_are_not_read_after_a_deferred_compaction() -> None:
    reuse = segment([], "__lance_frag_reuse", field_ids=(), type_url="/lance.table.FragmentReuseIndexDetails")

    assert not plan(table(segment(range(4), "zones", type_url=ZONEMAP), reuse), compare("id", "=", 5)).probed


def test_a_spoiled_index_is_not_asked() -> None:
    planned = plan(
        table(segment(range(4), "id_index", type_url=BITMAP)),
        compare("id", "=", 5),
        doubts={"id_index": Doubt.STALE},
    )

    assert not planned.probed
    assert reasons(planned) == {"id_index": Reason.STALE}


def test_what_a_doubted_index_names_is_checked_and_not_complemented() -> None:
    doubted = table(segment(range(4), "id_index", type_url=BITMAP))
    doubts = {"id_index": Doubt.EXTRA}

    equal = plan(doubted, compare("id", "=", 5), doubts=doubts)
    unequal = plan(doubted, compare("id", "!=", 5), doubts=doubts)

    assert [portion.residual for portion in equal.probed] == [compare("id", "=", 5)]
    assert reasons(equal) == {"id_index": Reason.INEXACT_PREFILTER}
    assert not unequal.probed
    assert reasons(unequal) == {"id_index": Reason.STALE}


def test_lance_asks_its_own_index_in_tasks_only_when_no_other_of_the_columns_spoils_it() -> None:
    words = segment(range(4), "words", type_url=BITMAP)
    both = And(children=(compare("id", "=", 5), compare("id", "=", 5)))

    assert not plan(table(words), both).scanned
    assert not any(portion.native_indexes for portion in plan(table(ID), compare("other", "=", 3)).portions)


def test_indexes_switched_off_are_not_asked() -> None:
    planned = plan(table(ID), compare("id", "=", 5), settings=ScanSettings(use_indexes=False))

    assert not planned.probed
    assert reasons(planned) == {"id_index": Reason.DISABLED}


def test_no_filter_scans_everything_and_an_impossible_one_nothing() -> None:
    assert [set(portion.fragments) for portion in plan(table(ID), None).portions] == [{0, 1, 2, 3}]
    impossible = And(children=(compare("id", "=", 5), compare("id", "=", 6)))
    assert plan(table(ID), impossible).portions == ()


PAGES = PageTable(
    low=pa.array(np.arange(0, 4 * ROWS, 100)),
    high=pa.array(np.arange(99, 4 * ROWS, 100)),
    nulls=np.zeros(40, dtype=np.int64),
    page_rows=100,
)


@pytest.mark.parametrize(("bound", "asked"), [(10, True), (2000, False)])
def test_an_index_is_asked_while_that_is_cheaper_than_a_scan(bound: int, asked: bool) -> None:
    statistics = IndexStatistics(tables={"id_index": (PAGES,)}, rows={"id_index": 4 * ROWS})
    settings = ScanSettings(random_read_bytes=40, run_bytes=0)

    planned = plan(table(ID), compare("id", "<", bound), statistics=statistics, settings=settings)

    assert bool(planned.probed) == asked
    assert reasons(planned) == {"id_index": Reason.USED if asked else Reason.TOO_MANY_ROWS}


def test_a_large_answer_beside_a_small_one_is_not_asked_for() -> None:
    wide = PageTable(low=PAGES.low, high=PAGES.high, nulls=PAGES.nulls, page_rows=100_000)
    statistics = IndexStatistics(
        tables={"id_index": (PAGES,), "other_index": (wide,)},
        rows={"id_index": 4 * ROWS, "other_index": 4 * ROWS},
    )
    both = And(children=(compare("id", "=", 5), compare("other", ">", 0)))

    (portion,) = plan(
        table(ID, OTHER), both, statistics=statistics, settings=ScanSettings(random_read_bytes=1)
    ).portions

    assert isinstance(portion.probe, NativeProbe)
    assert portion.probe.indexes == {"id_index"}
    assert portion.residual == compare("other", ">", 0)


def test_a_broken_index_is_named_and_passed_over() -> None:
    planned = plan(
        table(ID), compare("id", "=", 5), statistics=IndexStatistics(broken={"id_index": "its file is gone"})
    )

    assert not planned.probed
    assert [(note.reason, note.explanation) for note in planned.notes] == [
        (Reason.BROKEN_SEGMENT, "its file is gone")
    ]


def cut(of: Any, planned: QueryPlan, rows: list[list[int] | None], **changes: Any) -> tuple[ScanTask, ...]:
    answers = [
        PortionAnswer(
            portion=portion, rows=None if found is None else row_set(np.array(found, dtype=np.uint64))
        )
        for portion, found in zip(planned.portions, rows, strict=True)
    ]
    settings = ScanSettings(**{"random_read_bytes": 0, "run_bytes": 0, **changes})
    return plan_tasks(of, planned, answers, TaskInput(widths=WIDTHS, settings=settings, parallelism=2))


def test_a_few_rows_in_many_fragments_are_one_task() -> None:
    many = table(segment(range(3000), "id_index"), fragments=3000)
    planned = plan(many, compare("id", "=", 5))

    tasks = cut(many, planned, [[(id_ << 32) + 7 for id_ in range(0, 3000, 100)]])

    assert len(tasks) == 1
    assert tasks[0].row_count == 30
    assert tasks[0].filter is None


def test_a_fragment_with_most_of_its_rows_named_is_scanned() -> None:
    of = table(ID)
    planned = plan(of, compare("id", "=", 5))

    tasks = cut(of, planned, [[3, *((1 << 32) + row for row in range(0, ROWS, 2))]], run_bytes=400)

    assert [(task.fragments, task.rows is None) for task in tasks] == [((0,), False), ((1,), True)]
    assert tasks[1].filter == "id = 5"


@given(st.lists(st.integers(0, 400), min_size=1, max_size=30), st.integers(1, 9))
def test_scanning_tasks_hold_every_fragment_once_and_are_balanced(sizes: list[int], parallelism: int) -> None:
    of = snapshot([fragment(id_, rows) for id_, rows in enumerate(sizes)])
    planned = plan(of, None)

    tasks = plan_tasks(
        of,
        planned,
        [PortionAnswer(portion=portion, rows=None) for portion in planned.portions],
        TaskInput(widths=WIDTHS, settings=ScanSettings(), parallelism=parallelism),
    )

    held = [id_ for task in tasks for id_ in task.fragments]
    assert held == sorted(set(held))
    assert sum(task.row_count for task in tasks) == sum(sizes)
    target = -(-sum(sizes) // parallelism)
    assert all(task.row_count <= max(target, *sizes) for task in tasks)


def test_zones_give_runs_of_rows_of_the_fragments_asked_for() -> None:
    from lancewright.query.answers import zone_rows

    zones = ZoneTable(
        low=pa.array([0, 10, 20]),
        high=pa.array([9, 19, 29]),
        nulls=np.zeros(3, dtype=np.int64),
        nans=np.zeros(3, dtype=np.int64),
        fragments=np.array([0, 0, 1]),
        starts=np.array([0, 10, 0]),
        lengths=np.array([10, 10, 10]),
    )

    rows = zone_rows(zones, np.array([False, True, True]), FrozenBitMap([0]))

    assert rows.addresses().tolist() == list(range(10, 20))
