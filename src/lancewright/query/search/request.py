"""What a caller asks a search for. Frozen values; what can be seen wrong without the table is refused here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lancewright.errors import InvalidRequestError
from lancewright.model.columns import refuse_doubled
from lancewright.model.request import require_type
from lancewright.model.text_query import Match, Phrase, TextQuery, is_text_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lancewright.model.row_set import RowSet
    from lancewright.query.prefilter import AnsweredFilter

METRICS = ("l2", "cosine", "dot", "hamming")
# What Lance does not measure by; an index of kind hnsw may.
MORE_METRICS = ("jaccard", "haversine")
# Reciprocal rank fusion: the constant of the paper that introduced it, used ever since.
RANK_CONSTANT = 60
_K_MAX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlPrefilter:
    """Rows for which a condition is TRUE; Lance evaluates it inside each task, on the task's own fragments.

    ``native_indexes`` lets it ask the table's indexes for that; otherwise it reads the columns.
    """

    sql: str
    native_indexes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPrefilter:
    """Exactly these rows, by their addresses."""

    rows: RowSet


Prefilter: TypeAlias = SqlPrefilter | RowsPrefilter | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where a search looks: which column, which index, which rows.

    ``fast`` leaves rows without an index out; ``strict`` refuses to answer around a damaged index; ``index`` names the one to use.
    ``filter`` is how the prefilter came about, for who asks for an explanation.
    """

    column: str | None = None
    index: str | None = None
    prefilter: Prefilter = None
    fast: bool = False
    strict: bool = False
    use_index: bool = True
    filter: AnsweredFilter | None = None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        for name in ("column", "index"):
            if not isinstance(getattr(self, name), str | None):
                raise InvalidRequestError(f"{name}={getattr(self, name)!r} is no name", "Pass a str.")
        for name in ("fast", "strict", "use_index"):
            require_type(name, getattr(self, name), bool)
        if self.fast and not self.use_index:
            raise InvalidRequestError(
                "fast=True searches indexed rows only, use_index=False none of them", "Pass one of them."
            )
        if self.index is not None and not self.use_index:
            raise InvalidRequestError(
                f"index={self.index!r} and use_index=False contradict each other", "Pass one."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorTuning:
    """How nearest vectors are searched for. ``None`` leaves a number to Lance, and the metric to the index."""

    k: int = 10
    metric: str | None = None
    nprobes: int | None = None
    refine_factor: int | None = None
    ef: int | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        check_count("k", self.k)
        for name in ("nprobes", "refine_factor", "ef"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.ef is not None and self.ef < self.k:
            raise InvalidRequestError(f"ef={self.ef} is less than k={self.k}", "Pass an ef of at least k.")
        known = (*METRICS, *MORE_METRICS)
        if self.metric is not None and self.metric not in known:
            raise InvalidRequestError(
                f"metric={self.metric!r} is unknown", f"Pass one of: {', '.join(known)}."
            )
        _check_bounds(self.lower_bound, self.upper_bound)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorRequest:
    """The rows nearest to each vector. ``vectors`` has one row per query; ``batch`` tells one query from a batch of one."""

    vectors: NDArray[Any]  # Any: of the type the caller has, until the column is known
    batch: bool
    scope: Scope
    tuning: VectorTuning


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest:
    """The ``k`` texts that match best."""

    query: TextQuery
    k: int
    scope: Scope

    def __post_init__(self) -> None:
        """Refuse a k that is none."""
        check_count("k", self.k)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HybridRequest:
    """The ``k`` rows that rank best in both searches together. Each of the two finds its own number of candidates."""

    vector: VectorRequest
    text: TextRequest
    k: int
    rank_constant: float = RANK_CONSTANT

    def __post_init__(self) -> None:
        """Refuse what cannot be ranked together."""
        check_count("k", self.k)
        if self.vector.batch:
            raise InvalidRequestError("A hybrid search takes one vector", "Pass a vector of one dimension.")
        constant = self.rank_constant
        if not _is_number(constant) or not 0 <= constant < math.inf:
            raise InvalidRequestError(
                f"rank_constant={constant!r} is no number from 0 on", "Pass 60, or leave it out."
            )


SearchRequest: TypeAlias = VectorRequest | TextRequest | HybridRequest


def scope_of(request: SearchRequest) -> Scope:
    """Where a request looks; of one that ranks twice, where its vector does. Both have one filter."""
    return request.vector.scope if isinstance(request, HybridRequest) else request.scope


def read_vectors(vector: object) -> tuple[NDArray[Any], bool]:  # Any: see VectorRequest
    """What a caller passed as ``vector`` as a matrix, one row per query, and whether it was a batch."""
    try:
        values = np.asarray(_plain(vector))
    except (TypeError, ValueError) as error:
        raise _no_vector(vector) from error
    if values.ndim not in {1, 2} or values.size == 0 or values.dtype.kind not in "iuf":
        raise _no_vector(vector)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidRequestError("The query vector holds NaN or infinity", "Pass finite numbers.")
    return (values, True) if values.ndim == 2 else (values.reshape(1, -1), False)


def read_text(text: object, *, operator: str, fuzziness: int, phrase: bool) -> TextQuery:
    """What a caller passed as ``text`` as a query; the options are those of a plain str."""
    if is_text_query(text):
        if (operator, fuzziness, phrase) != ("or", 0, False):
            raise InvalidRequestError(
                "operator=, fuzziness= and phrase= belong to a text that is a str", "Set them in Match(...)."
            )
        return text  # type: ignore[return-value] # is_text_query has looked
    if phrase and (operator, fuzziness) != ("or", 0):
        raise InvalidRequestError("A phrase takes neither operator= nor fuzziness=", "Pass one or the other.")
    if not isinstance(text, str):
        raise InvalidRequestError(f"text={text!r} is no text", "Pass a str, Match, Phrase or Boolean.")
    return Phrase(text) if phrase else Match(text, operator, fuzziness)


def check_count(name: str, value: object) -> None:
    """Raise unless a value is a whole number above zero."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 < value <= _K_MAX:
        raise InvalidRequestError(
            f"{name}={value!r} is no number of them", f"Pass a whole number from 1 to {_K_MAX}."
        )


def _check_bounds(lower: float | None, upper: float | None) -> None:
    for name, value in (("lower_bound", lower), ("upper_bound", upper)):
        if value is not None and (not _is_number(value) or math.isnan(value)):
            raise InvalidRequestError(f"{name}={value!r} is no distance", "Pass a number.")
    if lower is not None and upper is not None and lower >= upper:
        raise InvalidRequestError(
            f"No distance is at least {lower} and below {upper}", "Pass lower_bound= below upper_bound=."
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _plain(vector: object) -> Any:  # Any: whatever NumPy makes an array of
    """Arrow's lists of lists as Python lists; NumPy, PyTorch and the like as they are."""
    return vector.to_pylist() if hasattr(vector, "to_pylist") else vector


def _no_vector(vector: object) -> InvalidRequestError:
    return InvalidRequestError(
        f"vector= is a {type(vector).__name__}, from which no vector can be read",
        "Pass a list or a NumPy array of numbers: of one dimension, or of two for a batch.",
    )


def columns_of(value: object) -> tuple[str, ...] | None:
    """What a caller passed as ``columns``."""
    if value is None:
        return None
    if isinstance(value, str) or not _is_names(value):
        raise InvalidRequestError(f"columns={value!r} is no list of names", "Pass a list of column names.")
    names: Sequence[str] = tuple(value)  # type: ignore[arg-type] # _is_names has looked
    refuse_doubled(names, "columns=")
    return tuple(names)


def _is_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
