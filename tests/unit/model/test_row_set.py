"""Sets of rows by fragment."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from lancewright.model.row_set import RowSet, row_set, unite

ADDRESSES = st.lists(
    st.builds(lambda f, o: (f << 32) | o, st.integers(0, 5) | st.just(2**31), st.integers(0, 2**32 - 1)),
    max_size=40,
)


def addresses(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


@given(ADDRESSES)
def test_a_set_gives_back_its_addresses_in_order_and_once(values: list[int]) -> None:
    rows = row_set(addresses(*values))

    assert rows.addresses().tolist() == sorted(set(values))
    assert len(rows) == len(set(values))


@given(ADDRESSES, ADDRESSES)
def test_algebra_is_that_of_sets(left: list[int], right: list[int]) -> None:
    a, b = row_set(addresses(*left)), row_set(addresses(*right))

    assert set((a & b).addresses().tolist()) == set(left) & set(right)
    assert set((a | b).addresses().tolist()) == set(left) | set(right)
    assert set((a - b).addresses().tolist()) == set(left) - set(right)
    assert unite([a, b]) == a | b
    assert hash(unite([a, b])) == hash(a | b)


@given(ADDRESSES, st.integers(1, 7))
def test_parts_have_a_bound_and_are_the_whole(values: list[int], rows_max: int) -> None:
    rows = row_set(addresses(*values))

    parts = list(rows.split(rows_max))

    assert all(0 < len(part) <= rows_max for part in parts)
    assert unite(parts) == rows


def test_a_fragment_without_rows_is_not_listed() -> None:
    rows = RowSet({3: FrozenBitMap([1]), 1: FrozenBitMap()})

    assert list(rows.fragments) == [3]
    assert not row_set(addresses())


def test_only_keeps_the_rows_of_the_fragments_named() -> None:
    rows = row_set(addresses(1, 1 << 32, (1 << 32) + 5, 7 << 32))

    assert rows.only({1}).addresses().tolist() == [1 << 32, (1 << 32) + 5]
