"""Sets of row addresses in sorted arrays do what Python's sets do."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lancewright.model.addresses import distinct, fragments_of, in_both, without

ADDRESSES = st.lists(
    st.builds(lambda fragment, row: fragment << 32 | row, st.integers(0, 5), st.integers(0, 9))
)


def array(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, dtype=np.uint64)


@given(left=ADDRESSES, right=ADDRESSES)
def test_sorted_arrays_are_sets(left: list[int], right: list[int]) -> None:
    one, other = distinct(array(left)), distinct(array(right))

    assert one.tolist() == sorted(set(left))
    assert without(one, other).tolist() == sorted(set(left) - set(right))
    assert in_both(one, other).tolist() == sorted(set(left) & set(right))
    assert fragments_of(one) == {address >> 32 for address in left}
