"""The verbs, and the thin ``Table`` façade over them. Holds no state but where the table is and who runs tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, overload

from lancewright.build.create import create_indexes, plan_create
from lancewright.build.drop import DropReceipt, drop_index
from lancewright.build.plan import BuildPlan
from lancewright.build.receipt import CreateReceipt
from lancewright.build.rounds import BuildOptions
from lancewright.errors import InvalidRequestError, LancewrightError
from lancewright.model.coverage import Coverage, measure_coverage
from lancewright.model.request import IndexRequest, require_type
from lancewright.observe.progress import ProgressSink
from lancewright.observe.sinks import BorrowedSink, FanOutSink, Sink
from lancewright.query.lookup.lookup import Lookup, LookupRequest
from lancewright.query.ordering import read_order
from lancewright.query.prefilter import FilterRequest, answer_filter
from lancewright.query.resolve import ScanRequest
from lancewright.query.search.kind_request import read_columns
from lancewright.query.search.request import (
    RANK_CONSTANT,
    Scope,
    VectorTuning,
    check_count,
    columns_of,
)
from lancewright.query.settings import ScanSettings
from lancewright.report import tables
from lancewright.report.shown import Shown
from lancewright.runtime.local_runner import LocalRunner
from lancewright.scans import Scan
from lancewright.spark.frames import SparkFrames
from lancewright.spark.runner import SparkRunner
from lancewright.spark.start_search import (
    Asked,
    HybridQuery,
    KindQuery,
    Outputs,
    SearchPlace,
    start_hybrid_search,
    start_kind_search,
    start_lookup,
    start_search,
)
from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot
from lancewright.table.tags import read_tag
from lancewright.upkeep import UpkeepVerbs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    from lancewright.model.index import IndexState, Segment
    from lancewright.model.predicate import Expression
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.model.text_query import TextQuery
    from lancewright.query.explain import Explanation
    from lancewright.query.prefilter import AnsweredFilter
    from lancewright.query.search.search import Search
    from lancewright.runtime.runner import Runner
    from lancewright.table.location import TableRef


def open(  # noqa: A001 - lw.open reads best at the call
    uri: str,
    *,
    spark: Any = None,  # Any: a classic or a Connect session, which share no public base
    storage_options: Mapping[str, str] | None = None,
    branch: str | None = None,
    runner: Runner | None = None,
    sink: Sink | None = None,
    progress: bool = True,
) -> Table:
    """Open a Lance table. With ``spark``, work runs on its executors; without, in this process.

    ``sink`` hears of everything that happens; ``progress`` shows a bar where there is a terminal or a notebook.
    """
    if spark is not None and runner is not None:
        raise InvalidRequestError("Both spark= and runner= were given", "Pass one of them.")
    if spark is not None and not hasattr(spark, "createDataFrame"):
        raise InvalidRequestError(
            f"spark= is a {type(spark).__name__}",
            "Pass a SparkSession, a classic one or one of Spark Connect.",
        )
    chosen = runner or (SparkRunner(spark) if spark is not None else LocalRunner())
    table = Table(
        table_ref(uri, branch=branch, storage_options=storage_options), chosen, sink, progress=progress
    )
    table.snapshot()  # a table that is not there is told now, not at the first verb
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexInfo:
    """One index of a table and how much of the table it covers."""

    state: IndexState
    coverage: Coverage

    @property
    def name(self) -> str:
        """Its name."""
        return self.state.name

    @property
    def kind(self) -> str:
        """Its kind; ``vector`` when a vector index was written by a Lance too old to say more, ``unknown`` for others'."""
        return self.state.kind

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read for it."""
        return self.state.columns

    @property
    def keys(self) -> tuple[str, ...]:
        """What it is built on: columns, or expressions over them."""
        return self.state.shown_keys

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Its usable segments."""
        return self.state.segments


class IndexList(Shown, tuple[IndexInfo, ...]):
    """The indexes of a table: a tuple that shows itself well."""

    __slots__ = ()

    def _grids(self) -> tuple[tables.Grid, ...]:
        return (tables.describe_indexes("Indexes", [(info.state, info.coverage) for info in self]),)


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Shown, BuildPlan):
    """What a build would do, per index and in all; nothing was written."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return (tables.describe_plan(self),)


@dataclass(frozen=True, kw_only=True, repr=False)
class Receipt(Shown, CreateReceipt):
    """What a build did, per index."""

    def _grids(self) -> tuple[tables.Grid, ...]:
        return (tables.describe_receipt(self),)


class Table(UpkeepVerbs, Shown):
    """A Lance table and what builds its indexes."""

    def __init__(
        self, ref: TableRef, runner: Runner, sink: Sink | None = None, *, progress: bool = True
    ) -> None:
        """Keep where the table is; use ``lancewright.open`` instead of calling this."""
        self._ref = ref
        self._runner = runner
        self._sink = sink
        self._progress = progress

    @property
    def name(self) -> str:
        """The table's URI without anything secret."""
        return self._ref.name

    def snapshot(self, version: int | None = None) -> TableSnapshot:
        """Read the table's fragments, columns and segments, at the latest version or the one given."""
        return read_snapshot(self._ref.latest() if version is None else self._ref.pinned(version))

    def indexes(self, version: int | None = None) -> IndexList:
        """List the indexes with their coverage, those of unknown kinds too."""
        snapshot = self.snapshot(version)
        return IndexList(
            IndexInfo(state=state, coverage=measure_coverage(snapshot, state)) for state in snapshot.indexes
        )

    @overload
    def create_index(
        self,
        column: str | Sequence[str],
        *,
        kind: str,
        name: str | None = ...,
        segments: int | None = ...,
        replace: bool = ...,
        if_not_exists: bool = ...,
        train: bool = ...,
        resume: bool = ...,
        dry_run: Literal[False] = ...,
        **parameters: Any,
    ) -> Receipt: ...

    @overload
    def create_index(
        self,
        column: str | Sequence[str],
        *,
        kind: str,
        name: str | None = ...,
        segments: int | None = ...,
        replace: bool = ...,
        if_not_exists: bool = ...,
        train: bool = ...,
        resume: bool = ...,
        dry_run: Literal[True],
        **parameters: Any,
    ) -> Plan: ...

    def create_index(
        self,
        column: str | Sequence[str],
        *,
        kind: str,
        name: str | None = None,
        segments: int | None = None,
        replace: bool = False,
        if_not_exists: bool = False,
        train: bool = True,
        resume: bool = True,
        dry_run: bool = False,
        **parameters: Any,  # Any: each kind has its own, validated against its catalogue
    ) -> Receipt | Plan:
        """Build one index over a column, or over several in order; further keywords are the kind's parameters.

        ``segments`` asks for a number of segments, ``train=False`` makes an empty index, ``resume=False`` forgets an
        earlier attempt, ``dry_run=True`` returns the plan and writes nothing.
        """
        request = IndexRequest(
            column=column,
            kind=kind,
            name=name,
            parameters=parameters,
            segments=segments,
            replace=replace,
            if_not_exists=if_not_exists,
            train=train,
        )
        require_type("dry_run", dry_run, bool)
        if dry_run:
            return self.plan_indexes([request])
        return self.create_indexes([request], resume=resume)

    def create_indexes(self, requests: Iterable[IndexRequest], *, resume: bool = True) -> Receipt:
        """Build several indexes in one job and publish them in one commit: all of them or none."""
        with self._sinks() as sink:
            done = create_indexes(self._ref, requests, self._runner, sink, BuildOptions(resume=resume))
        return Receipt(**_fields(done))

    def plan_indexes(self, requests: Iterable[IndexRequest]) -> Plan:
        """Say what ``create_indexes`` would do: tasks, rows, estimated bytes and memory per task."""
        return Plan(**_fields(plan_create(self._ref, requests, self._runner)[0]))

    def drop_index(self, name: str) -> DropReceipt:
        """Take an index out of the table, of whatever kind."""
        with self._sinks() as sink:
            return drop_index(self._ref, name, sink)

    def scan(
        self,
        where: str | Expression | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        order_by: str | Sequence[str] | None = None,
        version: int | None = None,
        tag: str | None = None,
        use_indexes: bool = True,
        strict: bool = False,
    ) -> Scan:
        """Rows for which ``where`` is TRUE, found through the indexes that help.

        ``where`` is Lance's SQL, or an expression such as ``lw.col("a") > 3``. ``columns`` may name ``_rowid`` and
        ``_rowaddr``. ``order_by`` and ``limit`` give the first rows in an order: ``order_by=["tenant", "at DESC"]``. ``version`` or ``tag`` reads what the table was. An index that cannot be read costs a scan; with
        ``strict`` it is an error.
        """
        require_type("use_indexes", use_indexes, bool)
        request = ScanRequest(
            where=where,
            columns=_names(columns),
            limit=limit,
            order_by=read_order(order_by),
            strict=strict,
            settings=ScanSettings(use_indexes=use_indexes),
        )
        return Scan(table=self._at(version, tag), request=request, runner=self._runner)

    def explain(
        self,
        where: str | Expression,
        *,
        columns: Sequence[str] | None = None,
        version: int | None = None,
        use_indexes: bool = True,
        strict: bool = False,
        analyze: bool = False,
    ) -> Explanation:
        """Say which index answers what of a filter, and why the others do not; ``analyze`` asks them and measures."""
        scan = self.scan(where, columns=columns, version=version, use_indexes=use_indexes, strict=strict)
        return scan.explain(analyze=analyze)

    def __repr__(self) -> str:
        """Show it as text. Says what is wrong instead of failing: a log line must not end the program."""
        try:
            return super().__repr__()
        except LancewrightError as error:
            return f"{self.name}: {error.problem}"

    def search(
        self,
        vector: Any = None,  # Any: a list, an array, or a frame of queries
        *,
        text: str | TextQuery | None = None,
        near: tuple[float, float] | None = None,
        query: Mapping[str, Any] | None = None,
        column: str | Sequence[str] | None = None,
        k: int = 10,
        where: str | Expression | None = None,
        columns: Sequence[str] | None = None,
        index: str | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        refine_factor: int | None = None,
        ef: int | None = None,
        lower_bound: float | None = None,
        upper_bound: float | None = None,
        operator: str = "or",
        fuzziness: int = 0,
        phrase: bool = False,
        query_column: str | None = None,
        fast: bool = False,
        strict: bool = False,
        use_index: bool = True,
        version: int | None = None,
    ) -> Search:
        """The ``k`` rows nearest to a vector or a place, or the ``k`` texts that match best; see the guide on searching.

        ``near`` is a longitude and a latitude in degrees; ``column`` then names the two columns, or is left to a spatial index.
        ``query`` asks an index of any kind that ranks, by ``index`` or ``column``, in the words of the kind.

        A matrix of vectors is a batch: the answer has a column ``query_index``. A frame of queries (Spark, pandas or Arrow) is
        joined: each of its rows comes back with the rows nearest to the vector in its ``query_column``. ``where`` restricts the
        rows before they are ranked. ``fast=True`` leaves rows without an index out, ``strict=True`` refuses a damaged index
        instead of searching around it, ``use_index=False`` looks at every row.
        """
        place = self._place(version)
        answered = self._answer_filter(place, where, strict=strict)
        of_kind = query is not None or near is not None
        asked = Asked(vector=vector, text=text, operator=operator, fuzziness=fuzziness, phrase=phrase)
        scope = Scope(
            column=None if of_kind else column,  # type: ignore[arg-type] # Scope refuses what is no name
            index=index,
            prefilter=answered.prefilter,
            filter=answered,
            fast=fast,
            strict=strict,
            use_index=use_index,
        )
        tuning = VectorTuning(
            k=k,
            metric=metric,
            nprobes=nprobes,
            refine_factor=refine_factor,
            ef=ef,
            lower_bound=lower_bound,
            upper_bound=upper_bound,
        )
        outputs = Outputs(columns=columns_of(columns), query_column=query_column)
        if of_kind:
            words = KindQuery(query=query, near=near, columns=read_columns(column))
            return start_kind_search(place, (asked, words), scope=scope, tuning=tuning, outputs=outputs)
        return start_search(place, asked, scope=scope, tuning=tuning, outputs=outputs)

    def hybrid_search(
        self,
        vector: Any,  # Any: a list or an array
        text: str | TextQuery,
        *,
        vector_column: str | None = None,
        text_column: str | None = None,
        k: int = 10,
        candidates: int | None = None,
        rank_constant: float = RANK_CONSTANT,
        where: str | Expression | None = None,
        columns: Sequence[str] | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        refine_factor: int | None = None,
        fast: bool = False,
        strict: bool = False,
        version: int | None = None,
    ) -> Search:
        """The ``k`` rows that rank best by vector and by text together: reciprocal rank fusion.

        Each search ranks ``candidates`` rows (four times ``k``, at least 50); a row counts ``1 / (rank_constant + rank)`` in each.
        """
        check_count("k", k)
        if candidates is not None:
            check_count("candidates", candidates)
        place = self._place(version)
        answered = self._answer_filter(place, where, strict=strict)
        scope = Scope(prefilter=answered.prefilter, filter=answered, fast=fast, strict=strict)
        count = max(4 * k, 50) if candidates is None else candidates
        return start_hybrid_search(
            place,
            VectorTuning(k=count, metric=metric, nprobes=nprobes, refine_factor=refine_factor),
            HybridQuery(vector=vector, text=text, k=k, rank_constant=rank_constant),
            scopes=(replace(scope, column=vector_column), replace(scope, column=text_column)),
            columns=columns_of(columns),
        )

    def lookup(
        self,
        keys: Any,  # Any: an Arrow table, a frame of pandas or of Spark
        *,
        on: str | Sequence[str] | None = None,
        index: str | None = None,
        columns: Sequence[str] | None = None,
        strict: bool = False,
        version: int | None = None,
    ) -> Lookup:
        """The rows that equal any of many keys, each with the place of its key: for joins and upserts.

        The columns of ``keys`` are named as the table's; ``on`` names those that are compared. An index of kind key or composite over
        just these columns is asked with all keys at once; rows outside of it are scanned. NULL equals nothing, NaN itself.
        """
        request = LookupRequest(
            on=read_columns(on) or None, index=index, columns=columns_of(columns), strict=strict
        )
        return start_lookup(self._place(version), keys, request)

    def _at(self, version: int | None, tag: str | None) -> TableRef:
        if tag is None:
            return self._ref if version is None else self._ref.pinned(version)
        if version is not None:
            raise InvalidRequestError("Both version= and tag= were given", "Pass one of them.")
        return read_tag(self._ref, tag)

    def _place(self, version: int | None) -> SearchPlace:
        frames = SparkFrames(self._runner.session) if isinstance(self._runner, SparkRunner) else None
        return SearchPlace(
            table=self._ref, snapshot=self.snapshot(version), runner=self._runner, frames=frames
        )

    def _answer_filter(
        self, place: SearchPlace, where: str | Expression | None, *, strict: bool
    ) -> AnsweredFilter:
        table = self._ref.pinned(place.snapshot.version)
        return answer_filter(FilterRequest(table=table, where=where, strict=strict))

    def _grids(self) -> tuple[tables.Grid, ...]:
        snapshot = self.snapshot()
        indexes = [(state, measure_coverage(snapshot, state)) for state in snapshot.indexes]
        return (tables.describe_snapshot(snapshot), tables.describe_indexes("Indexes", indexes))

    def _sinks(self) -> FanOutSink:
        given = [BorrowedSink(self._sink)] if self._sink is not None else []
        return FanOutSink(*given, *([ProgressSink()] if self._progress else []))


def _names(columns: object) -> tuple[str, ...] | None:
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise InvalidRequestError(f"columns={columns!r} is no list of names", "Pass a list of column names.")
    return tuple(columns)


def _fields(value: BuildPlan | CreateReceipt) -> dict[str, Any]:  # Any: each field has its own type
    return {field.name: getattr(value, field.name) for field in fields(value)}
