"""The lists of what Lance's indexes are trusted for are right, and no longer than they must be.

Lance itself is asked here, with its index, and held against truths that are known without it. A test fails when Lance goes wrong in
something new, and when it mends a fault: then take the fault off ``kinds/lance_native/trusted.py``.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

import lancewright as lw
from lancewright.kinds.lance_native.scalar import KINDS
from lancewright.kinds.lance_native.trusted import Condition, Harm
from lancewright.model.predicate import resolve_where, simplify, to_negation_normal_form
from lancewright.query.answering import condition_of, trusted_for
from lancewright.query.plan import Reason
from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot
from support.native_kinds import CASES, LAYOUTS, Judged, NativeCase, NativeTable, make_table

if TYPE_CHECKING:
    from pathlib import Path


# A JSON index that keeps its values in a bitmap answers rightly; which kind it is made of, a plan does not look at.
RIGHT_TARGETS = {"bitmap"}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_lance_goes_wrong_where_the_list_says_and_nowhere_else(tmp_path: Path, case: NativeCase) -> None:
    table = make_table(str(tmp_path), case, LAYOUTS[0])
    trusted = trusted_for(case.kind)

    harms = _harms(table)

    faulty = {
        condition
        for fault in trusted.faults
        for condition in fault.conditions
        if fault.shows(condition, case.type)
    }
    wrong = {condition for condition, found in harms.items() if any(found)}
    asked = {condition for condition in trusted.answers if trusted.precision(condition, case.type)}
    assert wrong <= faulty, f"Lance answers wrongly or fails: {harms}"
    assert not wrong & asked
    for fault in trusted.faults:
        shown = {harm for condition in fault.conditions for harm in harms.get(condition, ())}
        if fault.columns.has(case.type) and case.parameters.get("target_index_type") not in RIGHT_TARGETS:
            assert shown - {None}, f"Lance is right now: take off the list that {fault.cause}"
            assert case.kind == "json" or shown <= {None, fault.harm}


@pytest.mark.parametrize("case", [case for case in CASES if trusted_for(case.kind).faults], ids=str)
def test_a_fault_is_told_and_the_index_is_not_asked(tmp_path: Path, case: NativeCase) -> None:
    table = make_table(str(tmp_path), case, LAYOUTS[0])
    opened = lw.open(table.uri, progress=False)

    for condition, judged in _by_condition(table).items():
        fault = trusted_for(case.kind).fault(condition, case.type)
        if fault is None:
            continue
        (note,) = opened.explain(judged[0].sql).indexes
        assert note.reason == Reason.NOT_TRUSTED, judged[0].sql
        assert fault.cause in note.explanation


def test_every_kind_that_answers_filters_is_tried_and_every_condition_has_a_form() -> None:
    assert {case.kind for case in CASES} == {kind.name for kind in KINDS}
    for kind in KINDS:
        assert Condition.OTHER not in kind.trusted.answers
        for fault in kind.trusted.faults:
            assert Condition.OTHER not in fault.conditions


def _harms(table: NativeTable) -> dict[Condition, list[Harm | None]]:
    """What came of asking Lance for each form of condition."""
    harms: dict[Condition, list[Harm | None]] = defaultdict(list)
    for condition, several in _by_condition(table).items():
        harms[condition] = [_ask(table, judged) for judged in several]
    return harms


def _ask(table: NativeTable, judged: Judged) -> Harm | None:
    try:
        found = table.answer_of_lance(judged.sql)
    except (OSError, ValueError):
        return Harm.FAILS
    return None if found == judged.rows(table.alive) else Harm.WRONG_ROWS


def _by_condition(table: NativeTable) -> dict[Condition, list[Judged]]:
    columns = read_snapshot(table_ref(table.uri)).columns
    grouped: dict[Condition, list[Judged]] = defaultdict(list)
    for judged in table.atoms:
        bound = resolve_where(judged.sql, columns, {})
        assert bound is not None
        grouped[condition_of(simplify(to_negation_normal_form(bound)))].append(judged)
    return grouped
