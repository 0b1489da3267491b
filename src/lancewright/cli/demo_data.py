"""The rows of the demo: an orders table with keys, times, strings, tags, text and vectors. Seeded, so always the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

DIMENSION = 32
_CENTERS = 64
_STATUSES = pa.array(["new", "paid", "packed", "shipped", "returned", "lost"])
_STATUS_SHARES = (0.1, 0.3, 0.2, 0.35, 0.04, 0.01)
_TAGS = pa.array(["gift", "express", "fragile", "bulk", "refund", "vip", "cold", "export"])
_SYLLABLES = (
    "ka",
    "lo",
    "mi",
    "ra",
    "ten",
    "sor",
    "vi",
    "dal",
    "pe",
    "nu",
    "gri",
    "bol",
    "sha",
    "ul",
    "fen",
    "or",
)
_WORDS_PER_TEXT = 8
_VOCABULARY = 20_000
_FIRST_SECOND = 1_760_000_000

SCHEMA = pa.schema(
    [
        ("order_id", pa.int64()),
        ("customer", pa.string()),
        ("ordered_at", pa.timestamp("us", tz="UTC")),
        ("status", pa.string()),
        ("amount", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("note", pa.string()),
        ("embedding", pa.list_(pa.float32(), DIMENSION)),
    ]
)


def make_batches(rows: int, rows_per_batch: int = 100_000, seed: int = 7) -> Iterator[pa.RecordBatch]:
    """Make the rows, one batch at a time."""
    random = np.random.default_rng(seed)
    vocabulary = _vocabulary(random)
    centers = random.normal(size=(_CENTERS, DIMENSION)).astype(np.float32)
    for start in range(0, rows, rows_per_batch):
        yield _make_batch(random, vocabulary, centers, start, min(rows_per_batch, rows - start), rows)


def _vocabulary(random: np.random.Generator) -> pa.Array:
    parts = random.choice(_SYLLABLES, size=(_VOCABULARY, 3))
    return pa.array(sorted({"".join(word) for word in parts}))


def _make_batch(
    random: np.random.Generator, vocabulary: pa.Array, centers: np.ndarray, start: int, count: int, rows: int
) -> pa.RecordBatch:
    numbers = np.arange(start, start + count)
    # A shuffled key: the order id is not the order of the rows, so a lookup has to search.
    order_ids = (numbers * 2_654_435_761) % 4_294_967_291
    customers = pc.binary_join_element_wise(
        "customer-", pa.array(random.integers(0, rows // 20 + 1, count)).cast(pa.string()), ""
    )
    seconds = _FIRST_SECOND + numbers // 4
    near = centers[random.integers(0, _CENTERS, count)]
    vectors = (near + random.normal(scale=0.3, size=(count, DIMENSION))).astype(np.float32)
    return pa.record_batch(
        [
            pa.array(order_ids),
            customers,
            pa.array(seconds * 1_000_000).cast(pa.timestamp("us", tz="UTC")),
            _STATUSES.take(pa.array(random.choice(len(_STATUSES), count, p=_STATUS_SHARES))),
            pa.array(np.round(random.gamma(2.0, 40.0, count), 2)),
            _tags(random, count),
            _notes(random, vocabulary, count),
            pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION),
        ],
        schema=SCHEMA,
    )


def _tags(random: np.random.Generator, count: int) -> pa.Array:
    lengths = random.integers(0, 4, count)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = _TAGS.take(pa.array(random.integers(0, len(_TAGS), offsets[-1])))
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _notes(random: np.random.Generator, vocabulary: pa.Array, count: int) -> pa.Array:
    # Squaring makes a few words common and most rare, as in real text.
    picks = (random.random((_WORDS_PER_TEXT, count)) ** 2 * len(vocabulary)).astype(np.int64)
    words = [vocabulary.take(pa.array(row)) for row in picks]
    return pc.binary_join_element_wise(*words, " ")
