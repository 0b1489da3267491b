"""Rows come out in the order Lance expects: NULLs aside, Arrow's total order, equal values as they arrived."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.kinds.btree.packed_sort import order_keys
from lancewright.kinds.btree.sort_keys import exact_keys, key_width, values_of_keys
from lancewright.kinds.btree.sorted_run import SortedRun, merge_runs, sort_rows
from lancewright.kinds.btree.wide_values import order_wide, sort_wide
from unit.btree.orders import WORD_TYPES, bits_of, of_bits, ordinal, random_words

WIDE_TYPES = [
    pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(1), pa.binary(7), pa.binary(8), pa.binary(16),
    pa.binary(33), pa.decimal128(38, 4), pa.decimal128(5, -2), pa.decimal256(76, 10),
]  # fmt: skip
# Few letters, so that prefixes are shared and values repeat; NULs, so that an ended value and a zero byte differ.
_LETTERS = "\0\x01aä€🦜\x7f"


@st.composite
def wide_arrays(draw: st.DrawFn, type_: pa.DataType) -> pa.Array:
    pool = draw(st.lists(_wide_values(type_), min_size=1, max_size=12))
    if _is_text(type_) and draw(st.booleans()):
        pool = _of_one_length(pool, draw(st.sampled_from([1, 3, 7, 8, 9, 16, 36, 43])))
    values = draw(st.lists(st.sampled_from(pool), max_size=60))
    start = draw(st.integers(0, len(values)))
    stop = draw(st.integers(start, len(values)))
    return pa.array(values, type_).slice(start, stop - start)


def _wide_values(type_: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_decimal(type_):
        digits = st.one_of(
            st.integers(-300, 300), st.integers(1 - 10**type_.precision, 10**type_.precision - 1)
        )
        return digits.filter(lambda number: abs(number) < 10**type_.precision).map(
            lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -type_.scale))
        )
    prefix = st.sampled_from(["", "a" * 7, "a" * 8, "a" * 40, "€" * 30])
    text = st.builds(str.__add__, prefix, st.text(_LETTERS, max_size=20))
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return text
    if pa.types.is_fixed_size_binary(type_):
        width = type_.byte_width
        return text.map(lambda value: value.encode()[-width:].rjust(width, b"\0"))
    return text.map(str.encode)


def _is_text(type_: pa.DataType) -> bool:
    return not pa.types.is_decimal(type_) and not pa.types.is_fixed_size_binary(type_)


def _of_one_length(pool: list[Any], length: int) -> list[Any]:
    """As UUIDs are: such values are read and gathered in another way."""
    if isinstance(pool[0], bytes):
        return [value[-length:].rjust(length, b"\0") for value in pool]
    return [
        "".join(letter for letter in value if ord(letter) < 128)[-length:].rjust(length, "\0")
        for value in pool
    ]


def stable_order(values: list[Any]) -> list[int]:
    comparable = [value.encode() if isinstance(value, str) else value for value in values]
    return sorted(range(len(values)), key=lambda place: comparable[place])


@pytest.mark.parametrize("type_", WORD_TYPES, ids=str)
@given(seed=st.integers(0, 2**32), cut=st.integers(0, 30))
def test_keys_order_as_arrow_does_and_give_the_values_back(type_: pa.DataType, seed: int, cut: int) -> None:
    values = random_words(type_, 60, seed).slice(cut)

    keys = exact_keys(values)

    ordinals = [ordinal(bits, type_) for bits in bits_of(values)]
    assert keys.dtype == np.uint64
    by_key = np.lexsort((np.arange(len(keys)), keys)).tolist()
    assert by_key == sorted(range(len(ordinals)), key=lambda place: ordinals[place])
    assert len(set(keys.tolist())) == len(set(ordinals))
    back = values_of_keys(keys, type_)
    assert back.type == type_
    assert bits_of(back) == bits_of(values)


@pytest.mark.parametrize("type_", WORD_TYPES, ids=str)
def test_no_values_have_no_keys(type_: pa.DataType) -> None:
    assert len(exact_keys(pa.array([], type_))) == 0
    assert len(sort_rows(pa.array([], type_), np.zeros(0, np.uint64))) == 0


@pytest.mark.parametrize("type_", WIDE_TYPES, ids=str)
def test_wide_types_have_no_key(type_: pa.DataType) -> None:
    assert key_width(type_) is None


@given(
    low=st.integers(0, 2**64 - 1), span=st.sampled_from([0, 1, 2, 255, 2**20, 2**32, 2**58, 2**63, 2**64 - 1]),
    count=st.integers(0, 300), pool=st.integers(1, 300), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_ordering_keys_is_stable_over_every_span(
    low: int, span: int, count: int, pool: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    low = min(low, 2**64 - 1 - span)
    near = low + random.integers(0, span, pool, dtype=np.uint64, endpoint=True)
    keys = random.choice(np.concatenate([near, np.array([low, low + span], np.uint64)]), count)

    ordered, order = order_keys(keys.copy())

    expected = np.argsort(keys, kind="stable")
    assert np.array_equal(order, expected)
    assert np.array_equal(ordered, keys[expected])


def test_keys_that_differ_only_in_bits_that_do_not_fit_are_put_in_order() -> None:
    random = np.random.default_rng(5)
    keys = np.concatenate([random.integers(0, 8, 50_000, dtype=np.uint64), np.array([2**64 - 1], np.uint64)])

    ordered, order = order_keys(keys)

    expected = np.argsort(keys, kind="stable")
    assert np.array_equal(order, expected)
    assert np.array_equal(ordered, keys[expected])


@pytest.mark.parametrize("type_", WIDE_TYPES, ids=str)
@given(data=st.data())
def test_wide_values_are_ordered_by_their_bytes_and_stably(type_: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(wide_arrays(type_))

    order = order_wide(values)

    assert order.tolist() == stable_order(values.to_pylist())


@pytest.mark.parametrize("type_", WIDE_TYPES, ids=str)
@given(data=st.data())
def test_sorted_wide_values_are_the_same_values_in_order(type_: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(wide_arrays(type_))

    ordered, order = sort_wide(values)

    ordered.validate(full=True)
    assert ordered.type == type_
    assert ordered.equals(values.take(pa.array(stable_order(values.to_pylist()), pa.int64())))
    assert order.tolist() == stable_order(values.to_pylist())


def test_long_values_that_differ_late_are_told_apart() -> None:
    million = "x" * 1_000_000
    values = pa.array([million + "b", "x", million + "a", million, "", million + "\0", million + "a", "é"])

    order = order_wide(values)

    assert order.tolist() == stable_order(values.to_pylist())


@pytest.mark.parametrize("distinct", [1, 2, 50])
def test_a_few_values_repeated_many_times_stay_stable(distinct: int) -> None:
    random = np.random.default_rng(distinct)
    pool = [f"https://example.org/a/very/long/shared/prefix/{number}" for number in range(distinct)] + [
        "",
        "a",
        "a\0",
    ]
    values = pa.array([pool[place] for place in random.integers(0, len(pool), 20_000)])

    order = order_wide(values)

    assert order.tolist() == stable_order(values.to_pylist())


@given(data=st.data(), type_=st.sampled_from([pa.string(), pa.decimal128(38, 4), pa.int16(), pa.float32()]))
def test_merging_runs_of_chunks_sorts_them_as_one(data: st.DataObject, type_: pa.DataType) -> None:
    if key_width(type_) is None:
        values = data.draw(wide_arrays(type_))
    else:
        values = random_words(type_, data.draw(st.integers(0, 60)), data.draw(st.integers(0, 99)))
    addresses = np.sort(np.random.default_rng(1).choice(10_000, len(values), replace=False)).astype(np.uint64)
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=3))), len(values)]
    runs = [
        sort_rows(values.slice(start, stop - start), addresses[start:stop]) for start, stop in pairwise(cuts)
    ]

    merged = merge_runs(data.draw(st.permutations(runs)), type_)

    whole = sort_rows(values, addresses)
    assert merged.addresses.tolist() == whole.addresses.tolist()
    assert plain(merged) == plain(whole)


def test_merging_nothing_is_an_empty_run() -> None:
    for type_ in (pa.int8(), pa.string()):
        assert len(merge_runs([], type_)) == 0


def test_both_zeros_and_nans_of_both_signs_keep_their_places() -> None:
    bits = np.array([0x7FF8 << 48, 0, 1 << 63, 0xFFF8 << 48, 0x7FF0 << 48, 0xFFF0 << 48], np.uint64)

    run = sort_rows(of_bits(bits, pa.float64()), np.arange(6, dtype=np.uint64))

    assert run.addresses.tolist() == [3, 5, 2, 1, 4, 0]  # -NaN, -inf, -0.0, +0.0, inf, NaN


def plain(run: SortedRun) -> list[Any]:
    values = run.values(0, len(run))
    return bits_of(values) if key_width(run.type) is not None else values.to_pylist()
