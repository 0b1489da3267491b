"""Which rows are sampled, and what an index is asked for their values."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from lancewright.maintain.checks.findings import Fault, Finding, gather
from lancewright.maintain.checks.questions import ask_items, ask_pieces, ask_values, longest_word
from lancewright.maintain.checks.sampling import choose_places
from lancewright.model.snapshot import Fragment


def fragments(*rows: int) -> list[Fragment]:
    return [
        Fragment(id=place, physical_rows=count, deleted_rows=0, deletion_stamp=None, files=())
        for place, count in enumerate(rows)
    ]


def asked(values: list[object], type_: pa.DataType, kind: str = "btree") -> list[str]:
    scalars = pa.array(values, type_)
    numbered = [(scalar, place) for place, scalar in enumerate(scalars)]
    known = [scalar for scalar in scalars if scalar.is_valid]
    edges = (known[0], known[-1]) if known else (None, None)
    return [question.sql for question in ask_values(kind, "x", numbered, edges)]


def test_places_are_spread_evenly_and_hold_the_edges_of_every_fragment() -> None:
    places = choose_places(fragments(100, 0, 300, 50), 9, seed=1)

    assert {0, 99, 100, 399, 400, 449} <= set(places.tolist())
    for cut in range(9):
        assert any(cut * 50 <= place < (cut + 1) * 50 for place in places)
    assert places.tolist() == choose_places(fragments(100, 0, 300, 50), 9, seed=1).tolist()
    assert places.tolist() != choose_places(fragments(100, 0, 300, 50), 9, seed=2).tolist()


@pytest.mark.parametrize("rows", [(), (0,), (1,), (2, 1)])
def test_few_rows_are_all_chosen(rows: tuple[int, ...]) -> None:
    assert choose_places(fragments(*rows), 64, seed=0).tolist() == list(range(sum(rows)))


def test_each_value_is_asked_for_once_and_with_it_null_and_what_lies_beyond() -> None:
    assert asked([3, None, 3, 7], pa.int64()) == ["x = 3", "x = 7", "x < 3", "x > 7", "x IS NULL"]
    assert asked([True], pa.bool_()) == ["x = TRUE", "x IS NULL"]
    assert asked([3], pa.int64(), "bloomfilter") == ["x = 3", "x IS NULL"]
    assert asked([None], pa.int64()) == ["x IS NULL"]


def test_zeros_are_one_number_and_nan_is_always_asked_for() -> None:
    found = asked([-0.0, 0.0, 1.5, -math.nan], pa.float64(), "bitmap")

    assert found.count("x = 0.0") == 1
    assert "x = -0.0" not in found
    assert {"x = CAST('NaN' AS DOUBLE)", "x = CAST('-NaN' AS DOUBLE)", "x = 1.5"} <= set(found)


def test_values_are_exact_whatever_their_type() -> None:
    nanoseconds = pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))
    (first, *_) = ask_values("btree", "x", [(nanoseconds[0], None)], ())

    assert "1700000000123456789" in first.sql


def test_a_question_knows_the_rows_it_was_made_of() -> None:
    values = pa.array([5, 6, 5])
    first, second, null = ask_values(
        "bitmap", "x", [(value, place) for place, value in enumerate(values)], ()
    )

    assert (first.rows, second.rows, null.rows) == ((0, 2), (1,), ())


def test_items_and_words_are_quoted() -> None:
    lists = pa.array([["a'b", None], None, ["c", "c"]])
    texts = pa.array(["it's a wonderful'day", None, "to be", "wonderful"])

    assert [one.sql for one in ask_items("x", lists)] == ["array_has(x, 'a''b')", "array_has(x, 'c')"]
    assert [one.sql for one in ask_pieces("x", texts)] == ["contains(x, 'wonderful')"]
    assert longest_word("") is None


def test_findings_of_one_fault_are_gathered_for_each_segment() -> None:
    parts = [
        Finding(segment="a", fault=Fault.MISSING, rows=2, addresses=(1, 2), asked=("x = 1",)),
        Finding(segment="b", fault=Fault.MISSING, rows=1, addresses=(9,), asked=("x = 2",)),
        Finding(segment="a", fault=Fault.MISSING, rows=6, addresses=(2, 3, 4, 5, 6, 7), asked=("x = 3",)),
        Finding(segment="a", fault=Fault.STALE, rows=1, addresses=(1,), asked=("x = 1",)),
    ]

    gathered = gather(parts)

    assert [(one.segment, one.fault, one.rows) for one in gathered] == [
        ("a", Fault.MISSING, 8),
        ("b", Fault.MISSING, 1),
        ("a", Fault.STALE, 1),
    ]
    assert gathered[0].addresses == (1, 2, 3, 4, 5)
    assert gathered[0].asked == ("x = 1", "x = 3")
