"""The tables of vectors and of texts that ``benchmarks.query`` asks, and who is asked for the ten best."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa

import lancewright as lw
from lancewright.spark.worker_process import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

WIDTH = 64
K = 10
BATCH_ROWS = 100_000
WORDS = 20_000
WORDS_OF_A_TEXT = 8
NPROBES = 8


def vector_contenders(
    spark: SparkSession, folder: Path, count: int, fragments: int
) -> dict[str, Callable[[], int]]:
    """Who finds the ten nearest vectors: each gives how many it found."""
    uri = str(folder / f"vectors-{count}-{fragments}.lance")
    table = _table(spark, uri, (count, fragments), _vectors)
    if not table.indexes():
        partitions = max(1, round(count**0.5 / 4))
        table.create_index("vector", kind="ivf_flat", segments=4, num_partitions=partitions, max_iters=10)
    query = np.random.default_rng(99).normal(size=WIDTH).astype("f4")
    nearest = {"column": "vector", "q": query, "k": K, "minimum_nprobes": NPROBES}
    search = partial(table.search, query, k=K, columns=["id"])
    return {
        "pylance": lambda: lance.dataset(uri).to_table(columns=["id"], nearest=nearest).num_rows,
        "full scan": lambda: search(use_index=False).to_arrow().num_rows,
        "fan-out": lambda: _fan_out(spark, uri, {"nearest": nearest}, "_distance", descending=False),
        "lancewright": lambda: search(nprobes=NPROBES).to_arrow().num_rows,
    }


def text_contenders(
    spark: SparkSession, folder: Path, count: int, fragments: int
) -> dict[str, Callable[[], int]]:
    """Who finds the ten texts that match best: each gives how many it found."""
    uri = str(folder / f"texts-{count}-{fragments}.lance")
    table = _table(spark, uri, (count, fragments), _texts)
    if not table.indexes():
        table.create_index("text", kind="inverted", segments=4)
    words = "word17 word4711"
    asked = {"full_text_query": lance.query.MatchQuery(words, "text"), "limit": K}
    return {
        "pylance": lambda: lance.dataset(uri).to_table(columns=["id"], **asked).num_rows,
        "full scan": lambda: table.search(text=words, column="copy", k=K, columns=["id"]).to_arrow().num_rows,
        "fan-out": lambda: _fan_out(spark, uri, {"words": words, "limit": K}, "_score", descending=True),
        "lancewright": lambda: (
            table.search(text=words, column="text", k=K, columns=["id"]).to_arrow().num_rows
        ),
    }


def _fan_out(spark: SparkSession, uri: str, asked: dict[str, Any], rank: str, *, descending: bool) -> int:
    """One task for each fragment, each of which opens the index for itself; the ten best of all on the driver."""
    fragments = [fragment.fragment_id for fragment in lance.dataset(uri).get_fragments()]
    frame = spark.createDataFrame([(fragment,) for fragment in fragments], "fragment int")
    frame = frame.repartitionById(len(fragments), "fragment")
    found = frame.mapInArrow(partial(_search_fragment, uri, asked, rank), "id long, rank float").collect()
    return len(sorted((row.rank for row in found), reverse=descending)[:K])


def _search_fragment(
    uri: str, asked: dict[str, Any], rank: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    freeze_imports()
    options = dict(asked)
    if "words" in options:
        options["full_text_query"] = lance.query.MatchQuery(options.pop("words"), "text")
    for batch in batches:
        for fragment in batch.column("fragment").to_pylist():
            dataset = lance.dataset(uri)
            found = dataset.scanner(
                columns=["id", rank], fragments=[dataset.get_fragment(fragment)], prefilter=True, **options
            ).to_table()
            yield pa.RecordBatch.from_arrays(
                [found["id"].combine_chunks(), found[rank].combine_chunks().cast(pa.float32())],
                ["id", "rank"],
            )


def _table(
    spark: SparkSession, uri: str, size: tuple[int, int], make: Callable[[int, int], pa.RecordBatch]
) -> lw.Table:
    """A table of so many rows in so many fragments, written when it is not there."""
    count, fragments = size
    try:
        return lw.open(uri, spark=spark, progress=False)
    except lw.NotFoundError:
        sizes = [min(BATCH_ROWS, count - start) for start in range(0, count, BATCH_ROWS)]
        batches = (make(number, size) for number, size in enumerate(sizes))
        lance.write_dataset(batches, uri, schema=make(0, 1).schema, max_rows_per_file=-(-count // fragments))
        return lw.open(uri, spark=spark, progress=False)


def _vectors(number: int, count: int) -> pa.RecordBatch:
    random = np.random.default_rng(number)
    values = pa.FixedSizeListArray.from_arrays(
        pa.array(random.normal(size=count * WIDTH).astype("f4")), WIDTH
    )
    return pa.record_batch([_ids(number, count), values], names=["id", "vector"])


def _texts(number: int, count: int) -> pa.RecordBatch:
    """Words as frequent as words are: the n-th about 1/n as often as the first."""
    random = np.random.default_rng(number)
    ranks = np.minimum(random.zipf(1.2, (count, WORDS_OF_A_TEXT)), WORDS)
    texts = pa.array([" ".join(f"word{rank}" for rank in row) for row in ranks.tolist()])
    return pa.record_batch([_ids(number, count), texts, texts], names=["id", "text", "copy"])


def _ids(number: int, count: int) -> pa.Array:
    return pa.array(np.arange(count) + number * BATCH_ROWS)
