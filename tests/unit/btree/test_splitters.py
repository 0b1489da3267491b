"""Key ranges are even, follow each other and take every row exactly once."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.build.range_shuffle import cut_chunk, decode_blob, encode_run
from lancewright.build.splitters import SAMPLES_PER_RANGE, Splitters, choose_splitters, cut_run
from lancewright.kinds.btree.sort_keys import exact_keys, key_width
from lancewright.kinds.btree.sorted_run import SortedRun, sort_rows
from unit.btree.orders import random_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ROWS, RANGES, CHUNK = 200_000, 20, 30_000
_random = np.random.default_rng(11)
SHAPES: dict[str, Callable[[], pa.Array]] = {
    "uniform": lambda: pa.array(_random.integers(-(2**62), 2**62, ROWS)),
    "zipf": lambda: pa.array(_random.zipf(1.3, ROWS) % 2**40),
    "constant": lambda: pa.array(np.full(ROWS, 7)),
    "one value in 90 %": lambda: pa.array(
        np.where(_random.random(ROWS) < 0.9, 7, _random.integers(-99, 99, ROWS))
    ),
    "sorted": lambda: pa.array(np.arange(ROWS)),
    "reverse sorted": lambda: pa.array(np.arange(ROWS)[::-1]),
    "60 % NULL": lambda: pa.array(_random.integers(0, 2**40, ROWS), mask=_random.random(ROWS) < 0.6),
    "all NULL": lambda: pa.nulls(ROWS, pa.int64()),
    "floats": lambda: pa.array(_random.normal(size=ROWS)),
    "texts": lambda: pa.array([f"user-{number}" for number in _random.zipf(1.5, ROWS)]),
    "equal texts": lambda: pa.array(["same"] * ROWS),
    "few texts": lambda: pa.array(["yes", "no", "maybe"]).take(pa.array(_random.integers(0, 3, ROWS))),
}


def addresses_of(rows: int) -> NDArray[np.uint64]:
    """Row addresses of eight fragments with gaps, as deleted rows leave them."""
    places = np.sort(_random.choice(2 * rows, rows, replace=False)).astype(np.uint64)
    each = np.uint64(-(-2 * rows // 8))
    return (places // each << np.uint64(32)) + places % each


def gather(
    values: pa.Array, addresses: NDArray[np.uint64], splitters: Splitters, chunk: int
) -> dict[int, list[Any]]:
    """Cut chunk by chunk and collect, for each range, (is NULL, key or bytes, address)."""
    found: dict[int, list[Any]] = {}
    for start in range(0, len(values), chunk):
        part = values.slice(start, chunk)
        for number, blob in cut_chunk(part, addresses[start : start + chunk], splitters):
            found.setdefault(number, []).extend(rows_of(blob, values.type))
    return found


def rows_of(blob: bytes, type_: pa.DataType) -> list[Any]:
    run, nulls = decode_blob(blob, type_)
    rows: list[Any] = [] if nulls is None else [(0, 0, int(address)) for address in nulls]
    return rows if run is None else rows + [(1, key, int(address)) for key, address in pairs(run)]


def pairs(run: SortedRun) -> list[tuple[Any, int]]:
    return list(zip(comparable(run.values(0, len(run))), run.addresses.tolist(), strict=True))


def comparable(values: pa.Array) -> list[Any]:
    if key_width(values.type) is not None:
        return exact_keys(values).tolist()  # type: ignore[no-any-return]
    return [value.encode() if isinstance(value, str) else value for value in values.to_pylist()]


def expected_rows(values: pa.Array, addresses: NDArray[np.uint64]) -> list[Any]:
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    nulls = [(0, 0, int(address)) for address in addresses[is_null]]
    keys = zip(comparable(values.drop_null()), addresses[~is_null].tolist(), strict=True)
    return sorted(nulls + [(1, key, address) for key, address in keys])


@pytest.mark.parametrize("shape", SHAPES)
def test_ranges_are_even_and_hold_every_row_once(shape: str) -> None:
    values, addresses = SHAPES[shape](), addresses_of(ROWS)
    sample = np.sort(_random.choice(ROWS, RANGES * SAMPLES_PER_RANGE, replace=False))

    splitters = choose_splitters([(values.take(pa.array(sample)), addresses[sample])], values.type, RANGES)
    found = gather(values, addresses, Splitters.from_bytes(splitters.to_bytes()), CHUNK)

    ordered = [sorted(found[number]) for number in sorted(found)]
    assert len(ordered) == RANGES
    assert [row for part in ordered for row in part] == expected_rows(values, addresses)
    mean = ROWS / RANGES
    assert max(abs(len(part) - mean) for part in ordered) <= 0.15 * mean


@given(data=st.data())
def test_small_chunks_of_any_values_land_in_ranges_that_follow_each_other(data: st.DataObject) -> None:
    type_ = data.draw(
        st.sampled_from([pa.int64(), pa.float16(), pa.bool_(), pa.uint8(), pa.string(), pa.decimal128(9, 2)])
    )
    values = data.draw(small_values(type_))
    addresses = addresses_of(len(values)) if len(values) else np.zeros(0, np.uint64)
    picked = np.array(sorted(data.draw(st.sets(st.integers(0, max(0, len(values) - 1))))), np.int64)[
        : len(values)
    ]
    samples = [(values.take(pa.array(picked)), addresses[picked])] if len(values) else []

    splitters = choose_splitters(samples, type_, data.draw(st.integers(1, 9)))
    found = gather(values, addresses, splitters, data.draw(st.integers(1, 70)))

    assert set(found) <= set(range(splitters.ranges))
    ordered = [row for number in sorted(found) for row in sorted(found[number])]
    assert ordered == expected_rows(values, addresses)


@st.composite
def small_values(draw: st.DrawFn, type_: pa.DataType) -> pa.Array:
    count = draw(st.integers(0, 60))
    random = np.random.default_rng(draw(st.integers(0, 999)))
    hidden = random.random(count) < draw(st.sampled_from([0, 0.5, 1]))
    if key_width(type_) is not None:
        words = random_words(type_, count, draw(st.integers(0, 999)))
    elif pa.types.is_decimal(type_):
        words = pa.array(random.integers(-3, 3, count)).cast(pa.decimal128(19, 0)).cast(type_)
    else:
        words = pa.array(
            [["", "a", "a\0", "ä", "aaaaaaaaab"][place] for place in random.integers(0, 5, count)], type_
        )
    return words.take(pa.array(np.arange(count), pa.int64(), mask=hidden))


def test_a_tiny_sample_makes_fewer_ranges() -> None:
    splitters = choose_splitters([(pa.array([3, 1]), np.array([0, 1], np.uint64))], pa.int64(), 10)

    assert splitters.ranges == 2


@pytest.mark.parametrize("span", [0, 1, 255, 256, 2**16, 2**32 - 1, 2**32, 2**64 - 1])
def test_a_blob_gives_back_its_run_whatever_its_span(span: int) -> None:
    keys = np.array([2**64 - 1 - span, 2**64 - 1], np.uint64)
    addresses = np.array([2**64 - 1, 2**64 - 1 - span], np.uint64)
    run = SortedRun(type=pa.uint64(), addresses=addresses, keys=keys)

    back, nulls = decode_blob(encode_run(run), pa.uint64())

    assert nulls is None
    assert back is not None
    assert back.keys is not None
    assert back.keys.tolist() == keys.tolist()
    assert back.addresses.tolist() == addresses.tolist()


def test_a_blob_carries_only_its_slice() -> None:
    run = sort_rows(
        pa.array([f"{number:0100d}" for number in range(10_000)]), np.arange(10_000, dtype=np.uint64)
    )

    blob = encode_run(run.slice(500, 510))

    assert len(blob) < 5_000
    back, _ = decode_blob(blob, pa.string())
    assert back is not None
    assert pairs(back) == pairs(run)[500:510]


def test_cuts_ascend_even_where_addresses_of_equal_values_do_not() -> None:
    run = SortedRun(
        type=pa.int64(), addresses=np.array([50, 60, 10, 20], np.uint64), keys=np.full(4, 9, np.uint64)
    )
    splitters = Splitters(
        type=pa.int64(), null_addresses=np.zeros(0, np.uint64), values=pa.array([9 - 2**63] * 3),
        addresses=np.array([15, 30, 55], np.uint64),
    )  # fmt: skip

    cuts = [0, *cut_run(run, splitters).tolist(), 4]

    assert all(start <= stop for start, stop in pairwise(cuts))


@given(
    addresses=st.lists(
        st.tuples(
            st.integers(0, 2**32 - 1) | st.integers(5, 9), st.integers(0, 2**32 - 1) | st.integers(0, 70)
        ),
        min_size=1,
        max_size=40,
    )
)
def test_addresses_survive_the_way_whatever_fragments_they_are_in(addresses: list[tuple[int, int]]) -> None:
    packed = np.array([(fragment << 32) | place for fragment, place in addresses], dtype=np.uint64)
    run = SortedRun(type=pa.uint64(), addresses=packed, keys=np.arange(len(packed), dtype=np.uint64))

    back, _ = decode_blob(encode_run(run), pa.uint64())

    assert back is not None
    assert back.addresses.tolist() == packed.tolist()


def test_addresses_in_several_fragments_take_four_bytes() -> None:
    places = np.arange(100_000, dtype=np.uint64)
    addresses = ((places % np.uint64(12) + np.uint64(7)) << np.uint64(32)) | places

    blob = encode_run(SortedRun(type=pa.uint64(), addresses=addresses, keys=places))

    assert len(blob) < 100_000 * (4 + 4) + 2_000
