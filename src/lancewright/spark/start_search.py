"""Makes a search of what a caller passed: which sort it is, and everything about it that can be checked before a task.

In this room because queries may be a Spark frame; for all others it makes what ``query.search`` offers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.query.lookup.lookup import KEYS_MAX, prepare_lookup, read_names
from lancewright.query.search.join_plan import check_join
from lancewright.query.search.join_search import TableJoin, with_vectors
from lancewright.query.search.kind_request import KindRequest, KindScope, read_query
from lancewright.query.search.kind_search import prepare_kind_search
from lancewright.query.search.kind_vectors import read_as_kind_request
from lancewright.query.search.request import (
    HybridRequest,
    TextRequest,
    VectorRequest,
    VectorTuning,
    read_text,
    read_vectors,
)
from lancewright.query.search.search import prepare_search
from lancewright.spark.frame_join import FrameJoin, query_schema

if TYPE_CHECKING:
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.lookup.lookup import Lookup, LookupRequest
    from lancewright.query.search.request import Scope, SearchRequest
    from lancewright.query.search.search import Frames, Search
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlace:
    """Where a search looks and who runs its tasks."""

    table: TableRef
    snapshot: TableSnapshot
    runner: Runner
    frames: Frames | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """What is searched for: a vector, several, or a text; the options are those of a plain text."""

    vector: Any  # Any: whatever NumPy makes an array of, or a frame
    text: Any  # Any: a str or a text query
    operator: str = "or"
    fuzziness: int = 0
    phrase: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KindQuery:
    """What a kind of our own is asked: a query in its own words, or a place; the columns that are searched."""

    query: Any  # Any: a dict
    near: Any  # Any: a longitude and a latitude
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The columns of the table to return, and the column of a frame of queries that holds their vectors."""

    columns: tuple[str, ...] | None
    query_column: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HybridQuery:
    """A vector and a text, and how their ranks are fused."""

    vector: Any  # Any: see above
    text: Any  # Any: see above
    k: int
    rank_constant: float


def start_search(
    place: SearchPlace,
    asked: Asked,
    *,
    scope: Scope,
    tuning: VectorTuning,
    outputs: Outputs,
) -> Search:
    """A search for a vector, a matrix of vectors, a frame of queries, or a text: exactly one of them."""
    vector, text = asked.vector, asked.text
    if vector is None and text is None:
        raise InvalidRequestError(
            "Neither vector= nor text= was given", "Pass one of them, or near= or query=."
        )
    if vector is not None and text is not None:
        raise InvalidRequestError(
            "Both vector= and text= were given", "Pass one of them, or call hybrid_search(vector, text)."
        )
    if _is_frame(vector):
        return _start_join(place, vector, scope, tuning, outputs)
    if outputs.query_column is not None:
        raise InvalidRequestError("query_column= belongs to a frame of queries", "Leave it out.")
    request: SearchRequest
    if text is None:
        _refuse_words(asked)
        vectors, batch = read_vectors(vector)
        request = VectorRequest(vectors=vectors, batch=batch, scope=scope, tuning=tuning)
        ranked = read_as_kind_request(place.snapshot, request)
        if ranked is not None:
            return _prepare_kind(place, ranked, outputs.columns)
    else:
        _refuse_tuning(tuning)
        query = read_text(text, operator=asked.operator, fuzziness=asked.fuzziness, phrase=asked.phrase)
        request = TextRequest(query=query, k=tuning.k, scope=scope)
    return _prepare(place, request, outputs.columns)


def start_kind_search(
    place: SearchPlace,
    asked: tuple[Asked, KindQuery],
    *,
    scope: Scope,
    tuning: VectorTuning,
    outputs: Outputs,
) -> Search:
    """A search by what an index of a kind that is not Lance's ranks by; nothing else may be asked beside it."""
    plain, words = asked
    if sum(one is not None for one in (plain.vector, plain.text, words.query, words.near)) > 1:
        raise InvalidRequestError(
            "Several of vector=, text=, near= and query= were given", "Pass one of them."
        )
    _refuse_words(plain)
    _refuse_tuning(tuning)
    if outputs.query_column is not None:
        raise InvalidRequestError("query_column= belongs to a frame of queries", "Leave it out.")
    request = KindRequest(
        queries=(read_query(words.query, words.near),),
        k=tuning.k,
        scope=_kind_scope(scope, words.columns),
    )
    return _prepare_kind(place, request, outputs.columns)


def start_hybrid_search(
    place: SearchPlace,
    tuning: VectorTuning,
    query: HybridQuery,
    *,
    scopes: tuple[Scope, Scope],
    columns: tuple[str, ...] | None,
) -> Search:
    """A search for a vector and a text together; ``scopes`` of the first and of the second, ``tuning.k`` candidates of each."""
    vectors, batch = read_vectors(query.vector)
    text = read_text(query.text, operator="or", fuzziness=0, phrase=False)
    request = HybridRequest(
        vector=VectorRequest(vectors=vectors, batch=batch, scope=scopes[0], tuning=tuning),
        text=TextRequest(query=text, k=tuning.k, scope=scopes[1]),
        k=query.k,
        rank_constant=query.rank_constant,
    )
    return _prepare(place, request, columns)


def start_lookup(
    place: SearchPlace, keys: Any, request: LookupRequest
) -> Lookup:  # Any: an Arrow table, a frame of pandas or of Spark
    """A lookup of the rows of many keys; those of a frame of Spark come to the driver."""
    if not _is_frame(keys):
        raise InvalidRequestError(
            f"keys= is a {type(keys).__name__}", "Pass an Arrow table, or a frame of pandas or Spark."
        )
    if hasattr(keys, "mapInArrow"):
        names = read_names(place.snapshot, request)
        chosen = keys.select(*(f"`{name}`" for name in names)) if names else keys
        # One more than fits, so that too many are refused and not carried.
        rows = chosen.limit(KEYS_MAX + 1).toArrow()
    else:
        rows = keys if isinstance(keys, pa.Table) else pa.Table.from_pandas(keys, preserve_index=False)
    return prepare_lookup((place.table, place.snapshot, place.runner, place.frames), rows, request)


def _prepare(place: SearchPlace, request: SearchRequest, columns: tuple[str, ...] | None) -> Search:
    return prepare_search(place.table, place.snapshot, request, columns, place.runner, place.frames)


def _prepare_kind(place: SearchPlace, request: KindRequest, columns: tuple[str, ...] | None) -> Search:
    return prepare_kind_search(place.table, place.snapshot, request, columns, place.runner, place.frames)


def _kind_scope(scope: Scope, columns: tuple[str, ...]) -> KindScope:
    return KindScope(
        columns=columns,
        index=scope.index,
        prefilter=scope.prefilter,
        fast=scope.fast,
        strict=scope.strict,
        use_index=scope.use_index,
        filter=scope.filter,
    )


def _start_join(
    place: SearchPlace,
    queries: Any,  # Any: a frame of Spark or pandas, or an Arrow table
    scope: Scope,
    tuning: VectorTuning,
    outputs: Outputs,
) -> Search:
    wanted = (outputs.query_column, outputs.columns)
    if hasattr(queries, "mapInArrow"):
        request = check_join(place.snapshot, query_schema(queries), scope, tuning, wanted)
        return FrameJoin(
            table=place.table, snapshot=place.snapshot, request=request, queries=queries, runner=place.runner
        )
    rows = queries if isinstance(queries, pa.Table) else pa.Table.from_pandas(queries, preserve_index=False)
    request = check_join(place.snapshot, rows.schema, scope, tuning, wanted)
    return TableJoin(
        table=place.table,
        snapshot=place.snapshot,
        request=request,
        queries=with_vectors(place.snapshot, request, rows),
        runner=place.runner,
        frames=place.frames,
    )


def _is_frame(vector: object) -> bool:
    """True for a frame of Spark or pandas, and for an Arrow table."""
    is_pandas = type(vector).__module__.startswith("pandas.") and hasattr(vector, "columns")
    return hasattr(vector, "mapInArrow") or is_pandas or isinstance(vector, pa.Table)


def _refuse_words(asked: Asked) -> None:
    if (asked.operator, asked.fuzziness, asked.phrase) != ("or", 0, False):
        raise InvalidRequestError("operator=, fuzziness= and phrase= belong to text=", "Leave them out.")


def _refuse_tuning(tuning: VectorTuning) -> None:
    if tuning != VectorTuning(k=tuning.k):
        raise InvalidRequestError(
            "metric=, nprobes=, refine_factor=, ef= and the bounds belong to vector=", "Leave them out."
        )
