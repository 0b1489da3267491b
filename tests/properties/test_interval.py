"""An interval index names exactly the rows for which every condition on start and end is TRUE."""

from __future__ import annotations

import math
import random as plain_random
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancewright as lw
from lancewright.errors import CorruptIndexError, InvalidRequestError
from lancewright.kinds.contract import Atom, Key, Operator, Spec
from lancewright.kinds.interval.kind import IntervalKind
from lancewright.kinds.whole_numbers import whole_number, whole_numbers
from lancewright.query.plan import Reason
from lancewright.query.run import run_scan
from lancewright.runtime.local_runner import LocalRunner
from support.eager_scans import asked_indexes, assert_equal_to_a_full_scan, reasons, resolve_eagerly
from support.memory_place import build_in_memory

if TYPE_CHECKING:
    from pathlib import Path

    from lancewright.kinds.contract import Probe

KIND = IntervalKind()
COMPARISONS = {
    Operator.EQUAL: np.equal,
    Operator.LESS: np.less,
    Operator.LESS_EQUAL: np.less_equal,
    Operator.GREATER: np.greater,
    Operator.GREATER_EQUAL: np.greater_equal,
}
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [-(2**63), -(2**63) + 1, -5, -1, 0, 1, 2, 7, 100, 2**63 - 2, 2**63 - 1],
    pa.uint8(): [0, 1, 2, 100, 254, 255],
    pa.float64(): [-math.inf, -1e300, -1.5, -0.0, 0.0, 5e-324, 1.5, 2.0, math.inf, math.nan],
    pa.timestamp("us"): [-(10**15), 0, 1, 1000, 10**15],
}


def spec_of(type_: pa.DataType) -> Spec:
    return Spec(name="i", kind="interval", keys=(Key(name="a", type=type_), Key(name="b", type=type_)))


def plan(spec: Spec, conditions: list[tuple[int, Operator, Any]]) -> Probe:
    atoms = [
        Atom(operator=operator, keys=(key,), values=(pa.scalar(value, spec.keys[key].type),))
        for key, operator, value in conditions
    ]
    probe = KIND.plan(spec, atoms)
    assert probe is not None
    assert probe.consumed == frozenset(range(len(atoms)))
    return probe


def expected(keys: list[pa.Array], conditions: list[tuple[int, Operator, Any]]) -> list[int]:
    """By the whole numbers, whose order other tests compare with Lance's; NULL is never TRUE."""
    true = np.ones(len(keys[0]), dtype=np.bool_)
    for key, operator, value in conditions:
        wanted = np.uint64(whole_number(pa.scalar(value, keys[key].type)))
        true &= COMPARISONS[operator](whole_numbers(keys[key]), wanted)
        true &= keys[key].is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(true).tolist()


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.DataType, list[pa.Array], list[tuple[int, Operator, Any]]]:
    type_ = draw(st.sampled_from(list(VALUES)))
    value = st.sampled_from(VALUES[type_])
    pairs = draw(st.lists(st.tuples(st.none() | value, value | st.none()), max_size=60))
    keys = [pa.array([pair[key] for pair in pairs], type_) for key in (0, 1)]
    condition = st.tuples(st.integers(0, 1), st.sampled_from(list(COMPARISONS)), value)
    return type_, keys, draw(st.lists(condition, min_size=1, max_size=4))


@given(cases(), st.integers(1, 30))
@settings(max_examples=80, deadline=None)
def test_every_type_order_and_reversed_interval_is_answered_exactly(case: Any, batch_rows: int) -> None:
    type_, keys, conditions = case
    spec = spec_of(type_)
    opened, finished, _ = build_in_memory(KIND, spec, keys, batch_rows)
    probe = plan(spec, conditions)
    asked = frozenset(key for key, _, _ in conditions)

    named = set(opened.lookup(probe, asked))

    wanted = set(expected(keys, conditions))
    unseen = set(opened.masks.to_check(asked, stripped=True))
    assert named - unseen == wanted - unseen
    assert wanted <= named
    if wanted - unseen:
        assert not KIND.skip(spec, probe, finished.details.summary)


@pytest.mark.parametrize("seed", range(3))
def test_many_lengths_in_many_groups_are_answered_exactly(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = 60_000
    starts = random.integers(-(10**12), 10**12, count)
    lengths = (2.0 ** random.uniform(0, 45, count)).astype(np.int64) * random.choice([1, 1, 1, -1], count)
    keys = [pa.array(starts), pa.array(starts + lengths)]
    spec = spec_of(pa.int64())
    opened, finished, _place = build_in_memory(KIND, spec, keys, 7000)
    pick = plain_random.Random(seed)

    for _ in range(12):
        low = pick.randrange(-(10**12), 10**12)
        high = low + pick.choice([0, 1, 10**6, 10**10])
        conditions = [
            (0, Operator.LESS_EQUAL, high),
            (1, pick.choice([Operator.GREATER, Operator.EQUAL]), low),
        ]
        probe = plan(spec, conditions)
        named = list(opened.lookup(probe, {0, 1}))
        assert named == expected(keys, conditions)
        if named:
            assert not KIND.skip(spec, probe, finished.details.summary)


def test_a_stabbing_lookup_reads_little_whatever_the_lengths() -> None:
    random = np.random.default_rng(1)
    count = 400_000
    starts = random.integers(0, 10**12, count)
    lengths = (2.0 ** random.uniform(10, 30, count)).astype(np.int64)
    keys = [pa.array(starts), pa.array(starts + lengths)]
    spec = spec_of(pa.int64())
    opened, finished, place = build_in_memory(KIND, spec, keys, 100_000)
    conditions = [(0, Operator.LESS_EQUAL, 5 * 10**11), (1, Operator.GREATER, 5 * 10**11)]
    probe = plan(spec, conditions)
    place.bytes_read = 0

    named = opened.lookup(probe, {0, 1})

    assert list(named) == expected(keys, conditions)
    stored = sum(len(content) for content in place.files.values())
    assert place.bytes_read < stored / 2
    cost = KIND.cost(spec, probe, finished.details.summary, count)
    assert len(named) / 4 <= cost.rows <= 1000 + 4 * len(named)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (["start"], "1 columns"),
        (["start", "end", "start2"], "3 columns"),
        (["start", "name"], "string"),
        (["start", "day"], "date32"),
    ],
)
def test_columns_that_are_no_interval_are_refused(tmp_path: Path, columns: list[str], problem: str) -> None:
    rows = {"start": [1], "end": [2], "start2": [3], "name": ["x"], "day": pa.array([1], pa.date32())}
    lance.write_dataset(pa.table(rows), str(tmp_path / "t"))

    with pytest.raises(InvalidRequestError, match=problem):
        lw.open(str(tmp_path / "t"), progress=False).create_index(columns, kind="interval")


def validity(folder: Path, rows: int = 40_000) -> str:
    """Intervals with NULL ends and starts, NaN and reversed ones, in several fragments."""
    random = np.random.default_rng(5)
    starts = np.round(random.uniform(0, 1000, rows), 1)
    ends = starts + np.round(random.exponential(2, rows), 1) - (random.random(rows) < 0.05) * 4
    ends[random.random(rows) < 0.01] = math.nan
    table = pa.table(
        {
            "id": range(rows),
            "valid_from": pa.array(starts, mask=random.random(rows) < 0.02),
            "valid_to": pa.array(ends, mask=random.random(rows) < 0.05),
            "wide": ["x" * 100] * rows,
        }
    )
    uri = str(folder / "validity")
    lance.write_dataset(table, uri, max_rows_per_file=rows // 4)
    return uri


ASKED = (
    "valid_from <= 500 AND valid_to > 500",
    "valid_from < 500.5 AND valid_to >= 500.1",
    "valid_from <= 10 AND valid_to >= 900",
    "valid_from <= 500.3 AND valid_to > 500.3 AND id % 2 = 0",
    "valid_from > 999.5 AND NOT (valid_to > 1000)",
    "valid_from <= 0.5 AND valid_to IS NULL",
    "valid_to < 1.0 AND valid_from > 0.9",
    "valid_from <= 3 AND valid_to > 3 OR valid_from <= 7 AND valid_to > 7",
)


def test_scans_through_the_index_give_what_a_full_scan_gives_whatever_happened_to_the_table(
    tmp_path: Path,
) -> None:
    uri = validity(tmp_path)
    table = lw.open(uri, progress=False)
    table.create_index(["valid_from", "valid_to"], kind="interval", segments=2)
    lance.dataset(uri).delete("id % 13 = 3")
    lance.write_dataset(lance.dataset(uri).to_table(filter="id % 1000 = 5"), uri, mode="append")
    lance.dataset(uri).update({"valid_to": "500.7"}, "id % 997 = 0")

    for asked in ASKED:
        scan = assert_equal_to_a_full_scan(uri, asked)
        assert asked_indexes(scan) == {"valid_from_valid_to_idx"}, asked


def test_a_damaged_segment_is_scanned_around_and_named(tmp_path: Path) -> None:
    uri = validity(tmp_path)
    table = lw.open(uri, progress=False)
    table.create_index(["valid_from", "valid_to"], kind="interval")
    for path in (tmp_path / "validity" / "_indices").rglob("entries"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(bytes(content))

    scan = resolve_eagerly(uri, ASKED[0])

    assert reasons(scan) == {Reason.BROKEN_SEGMENT}
    found = sorted(run_scan(scan, LocalRunner())["id"].to_pylist())
    assert found == sorted(lance.dataset(uri).to_table(filter=ASKED[0], columns=["id"])["id"].to_pylist())
    with pytest.raises(CorruptIndexError):
        resolve_eagerly(uri, ASKED[0], strict=True)
