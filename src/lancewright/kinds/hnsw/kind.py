"""Kind ``hnsw``: nearest vectors through a graph, by a metric of the user's choice. Nothing is trained.

A graph finds most of the nearest, and not surely all; what it finds is measured exactly. Where few rows may be found, those are
looked at one by one, and where a walk ends too early, all are: as many rows come back as were asked for, if there are so many.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lancewright.errors import InvalidRequestError
from lancewright.kinds.contract import ROW_COLUMN, Built, Hits, IndexKind, Reader, SearchProbe, row_numbers
from lancewright.kinds.hnsw.graph import Graph, require_usearch
from lancewright.kinds.hnsw.metrics import METRICS, read_matrix, value_type
from lancewright.kinds.sorted_file import write_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import ClassVar

    import pyarrow as pa
    from numpy.typing import NDArray

    from lancewright.kinds.contract import Atom, Key, Probe, RowNumbers, Spec, Store
    from lancewright.kinds.hnsw.metrics import Metric, Vectors

ROWS_FILE = "rows"
VECTOR = "vector"
_QUERY = {VECTOR, "metric", "ef"}
_ALIASES = {"l2sq": "l2"}
_NUMBERS = {"m": (16, 2, 256), "ef_construction": (128, 1, 1 << 16), "ef": (64, 1, 1 << 20)}
# So many vectors are measured in the time of a walk or two, and then none is missed.
EXACT_ROWS_MAX = 5_000
# A walk that is to find more than a part of all vectors takes longer than to measure them.
_EXACT_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Asked:
    """What a probe asks for."""

    vector: Vectors
    ef: int


class HnswKind(IndexKind):
    """Nearest vectors."""

    name: ClassVar[str] = "hnsw"
    rows_max: ClassVar[int] = 1_000_000
    doc: ClassVar[str] = (
        "Nearest vectors through a graph: l2, cosine, dot, haversine, and hamming and jaccard of bits."
    )

    def validate(self, keys: Sequence[Key], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Take one column of vectors, a metric that is defined for it, and how dense the graph is and how far it is walked."""
        type_ = value_type(keys[0].type) if len(keys) == 1 else None
        if type_ is None:
            listed = ", ".join(f"{key.name} ({key.type})" for key in keys)
            raise InvalidRequestError(
                f"Kind {self.name!r} cannot index {listed}",
                "Choose one column that is a fixed size list of float16, float32, float64 or uint8.",
            )
        for name in parameters:
            if name not in {"metric", *_NUMBERS}:
                raise InvalidRequestError(
                    f"Kind {self.name!r} has no parameter {name!r}",
                    f"It takes metric, {', '.join(_NUMBERS)}.",
                )
        metric = _choose_metric(keys[0], parameters.get("metric"))
        require_usearch()
        return {"metric": metric, **{name: _count(name, parameters.get(name)) for name in _NUMBERS}}

    def build(self, spec: Spec, rows: Iterable[pa.RecordBatch], out: Store) -> Built:
        """Put vectors into a graph, one after the other; memory is the vectors and their neighbours."""
        metric, graph = _metric_of(spec), _graph_of(spec)
        kept, unkeyed = [np.zeros(0, dtype=np.uint32)], [np.zeros(0, dtype=np.uint32)]
        for batch in rows:
            numbers = batch.column(ROW_COLUMN).to_numpy()
            vectors, whole = read_matrix(batch.column("k0"))
            sound = whole & metric.sound(vectors)
            graph.add(numbers[sound], vectors[sound])
            kept.append(numbers[sound])
            unkeyed.append(numbers[~sound])
        graph.write(out)
        known = np.concatenate(kept)
        write_array(out, ROWS_FILE, known)
        return Built(keyed=len(known), unkeyed=row_numbers(np.concatenate(unkeyed)))

    def plan(self, spec: Spec, group: Sequence[Atom]) -> Probe | None:
        """It ranks and does not filter."""
        del spec, group
        return None

    def plan_search(self, spec: Spec, query: Mapping[str, Any]) -> SearchProbe | None:
        """Accept ``{"vector": numbers}``, with a ``metric`` that must be the index's, and an ``ef``."""
        own = spec.parameters["metric"]
        asked = query.get("metric") or own
        if VECTOR not in query or not set(query) <= _QUERY or _ALIASES.get(asked, asked) != own:
            return None
        vector = _read_vector(spec, query[VECTOR])
        ef = _count("ef", query.get("ef") or spec.parameters["ef"])
        payload = {"vector": vector.tolist(), "ef": ef}
        return SearchProbe(
            payload=json.dumps(payload).encode(),
            descending=False,
            exact=False,
            text=f"nearest by {own}, ef {ef}",
        )

    def score(self, spec: Spec, probe: SearchProbe, rows: pa.RecordBatch) -> NDArray[np.float64]:
        """How far vectors are."""
        metric, asked = _metric_of(spec), _read_probe(spec, probe)
        vectors, whole = read_matrix(rows.column("k0"))
        return np.where(whole & metric.sound(vectors), metric.distances(asked.vector, vectors), np.nan)

    def open(self, spec: Spec, store: Store) -> Reader:
        """Open the segment."""
        return HnswReader(spec, store)


class HnswReader(Reader):
    """One segment."""

    def __init__(self, spec: Spec, store: Store) -> None:
        """Read nothing yet."""
        self._spec = spec
        self._store = store
        self._metric = _metric_of(spec)

    def search(
        self, probe: SearchProbe, statistics: Sequence[bytes], k: int, allow: RowNumbers | None
    ) -> Hits:
        """Nearly the nearest rows, exactly measured."""
        del statistics
        asked = _read_probe(self._spec, probe)
        rows = self._rows
        if allow is not None:
            rows = rows[np.isin(rows, np.frombuffer(allow.to_array(), dtype=np.uint32), assume_unique=True)]
        found = self._walk(asked, k, rows) if k and len(rows) else rows[:0]
        return self._measure(asked, rows if found is None else found, k)

    def _walk(self, asked: _Asked, k: int, allowed: NDArray[np.uint32]) -> NDArray[np.uint32] | None:
        """Rows among which the nearest are; None when all that are allowed are to be looked at."""
        total = len(self._rows)
        filtered = len(allowed) < total
        if (filtered and len(allowed) <= EXACT_ROWS_MAX) or k >= len(allowed):
            return None
        count = max(k, int(k * total / len(allowed) * 1.5)) if filtered else k
        while count <= max(asked.ef, _EXACT_SHARE * total):
            found = self._graph.walk(asked.vector, min(count, total), asked.ef)
            kept = found[np.isin(found, allowed)] if filtered else found
            if len(kept) >= k:
                return kept
            count *= 4
        return None

    def _measure(self, asked: _Asked, rows: NDArray[np.uint32], k: int) -> Hits:
        if not len(rows):
            return Hits(rows=rows, scores=np.zeros(0))
        far = np.concatenate(
            [
                self._metric.distances(asked.vector, self._graph.vectors(rows[start : start + (1 << 16)]))
                for start in range(0, len(rows), 1 << 16)
            ]
        )
        best = np.lexsort((rows, far))[:k]
        return Hits(rows=rows[best], scores=far[best])

    @cached_property
    def _graph(self) -> Graph:
        graph = _graph_of(self._spec)
        graph.view(self._store)
        return graph

    @cached_property
    def _rows(self) -> NDArray[np.uint32]:
        file = self._store.open(ROWS_FILE)
        return np.frombuffer(file.read(0, file.size), "<u4")


def _metric_of(spec: Spec) -> Metric:
    return METRICS[spec.parameters["metric"]]


def _graph_of(spec: Spec) -> Graph:
    return Graph(_metric_of(spec), spec.keys[0].type, dict(spec.parameters))


def _choose_metric(key: Key, asked: object) -> str:
    """The metric asked for, or the usual one of the column."""
    bits = key.type.value_type.bit_width == 8
    fitting = [
        metric.name
        for metric in METRICS.values()
        if metric.of_bits == bits and metric.width in {None, key.type.list_size}
    ]
    name = _ALIASES.get(str(asked), str(asked)) if asked is not None else fitting[0]
    if name not in fitting:
        raise InvalidRequestError(
            f"metric={asked!r} is not defined for {key.name}, which is {key.type}",
            f"Pass one of: {', '.join(fitting)}.",
        )
    return name


def _count(name: str, value: object) -> int:
    default, least, most = _NUMBERS[name]
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise InvalidRequestError(
            f"{name}={value!r} is no such number", f"Pass a whole number from {least} to {most}."
        )
    return int(value)


def _read_vector(spec: Spec, given: object) -> Vectors:
    """A vector as the column has them; raises when it cannot be one, or has no distance to any."""
    metric, type_ = _metric_of(spec), spec.keys[0].type
    dtype = np.dtype(type_.value_type.to_pandas_dtype())
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    with np.errstate(over="ignore", invalid="ignore"):
        vector = numbers.astype(dtype)
    whole = dtype.kind == "f" or bool((vector == numbers).all())
    if numbers.shape != (type_.list_size,) or not whole or not metric.sound(vector.reshape(1, -1))[0]:
        raise InvalidRequestError(
            f"vector= is none that {spec.keys[0].name}, which is {type_}, can be ranked by",
            f"Pass {type_.list_size} finite numbers, for cosine not all zero, for bits bytes.",
        )
    metric.distances(vector, vector.reshape(1, -1))  # a place that is none is refused here
    return vector


def _read_probe(spec: Spec, probe: SearchProbe) -> _Asked:
    payload = json.loads(probe.payload)
    dtype = spec.keys[0].type.value_type.to_pandas_dtype()
    return _Asked(vector=np.array(payload["vector"], dtype=dtype), ef=payload["ef"])
