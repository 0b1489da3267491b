"""Chooses the index whose kind ranks by a query, or the kind alone where that is enough. Reads no file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyroaring import BitMap, FrozenBitMap

from lancewright.build.kind_worker import keys_of
from lancewright.errors import InvalidRequestError, LancewrightError, UnsupportedError
from lancewright.kinds.contract import IndexKind, SearchProbe, Spec
from lancewright.kinds.plugins import PLUGINS, Unusable
from lancewright.kinds.segment.calling import calling
from lancewright.kinds.segment.judging import KindSegment, declared_as, judge_kind_segment
from lancewright.model.columns import find_column
from lancewright.model.computed import keys_of_segment
from lancewright.model.segment_details import DetailsError, details_from_bytes
from lancewright.query.kind_index import is_kind_index
from lancewright.query.search.kind_request import NEAR
from lancewright.query.search.notes import SearchNote, SearchReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lancewright.kinds.plugins import PluginRef
    from lancewright.model.columns import Column
    from lancewright.model.computed import ComputedColumn
    from lancewright.model.index import IndexState, Segment
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.query.search.kind_request import KindRequest

# The kind that ranks places, for a table without an index of it.
_PLACES = "spatial"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """What ranks: a kind as an index declares it, one probe for each query, and the segments that can be asked.

    ``name`` is that of the index, None when there is none. ``notes`` say why it is this one, and what cannot be asked.
    """

    name: str | None
    kind: IndexKind
    plugin: PluginRef
    spec: Spec
    columns: tuple[Column | ComputedColumn, ...]
    probes: tuple[SearchProbe, ...]
    segments: tuple[KindSegment, ...] = ()
    claimed: FrozenBitMap = field(default_factory=FrozenBitMap)
    notes: tuple[SearchNote, ...] = ()

    @property
    def covered(self) -> FrozenBitMap:
        """The live fragments that segments answer for."""
        return FrozenBitMap(BitMap.union(BitMap(), *(segment.covered for segment in self.segments)))


def choose_ranker(snapshot: TableSnapshot, request: KindRequest) -> Choice:
    """The index that accepts the queries and covers most; raises when nothing ranks by them."""
    candidates = [index for index in snapshot.indexes if _is_addressed(snapshot, index, request)]
    if request.scope.index is not None and not candidates:
        raise _no_such_index(snapshot, request)
    judged = [_judge(snapshot, index, request) for index in candidates]
    refused = tuple(one for one in judged if isinstance(one, SearchNote))
    fitting = [one for one in judged if isinstance(one, Choice)]
    if not fitting:
        alone = _kind_alone(snapshot, request, candidates)
        if alone is None:
            raise _nothing_ranks(snapshot, request, refused)
        return _with_notes(request, alone, refused)
    rows = snapshot.fragments_by_id
    best, *others = sorted(
        fitting, key=lambda one: (-sum(rows[fragment].rows for fragment in one.covered), one.name or "")
    )
    left = tuple(
        _note(SearchReason.OTHER_INDEX_CHOSEN, one.name or "", f"{best.name} covers as many rows or more")
        for one in others
    )
    return _with_notes(request, best, (*left, *refused))


def _is_addressed(snapshot: TableSnapshot, index: IndexState, request: KindRequest) -> bool:
    if not is_kind_index(index):
        return False
    if request.scope.index is not None and index.name != request.scope.index:
        return False
    asked = {find_column(snapshot.columns, name).path for name in request.scope.columns}
    return asked <= set(index.columns)


def _judge(snapshot: TableSnapshot, index: IndexState, request: KindRequest) -> Choice | SearchNote:
    kind = PLUGINS.load(index.kind)
    if isinstance(kind, Unusable):
        return _unusable(index, kind)
    live = FrozenBitMap(fragment.id for fragment in snapshot.fragments)
    segments, notes = _usable_segments(snapshot, index, kind, live)
    # A segment whose files cannot be read here still says in the manifest what the index is.
    declaring = [one.segment for one in segments] or index.segments
    plugin, declared = PLUGINS.ref(index.kind), next(_declarations(snapshot, index, declaring), None)
    if plugin is None or declared is None:
        return _no_details(index)
    spec, columns = declared
    probes = _plan(index, kind, spec, request)
    if isinstance(probes, SearchNote):
        return probes
    claimed = BitMap.union(BitMap(), *(segment.covered for segment in index.segments))
    return Choice(
        name=index.name,
        kind=kind,
        plugin=plugin,
        spec=spec,
        columns=columns,
        probes=probes,
        segments=segments,
        claimed=FrozenBitMap(claimed & live),
        notes=notes,
    )


def _usable_segments(
    snapshot: TableSnapshot, index: IndexState, kind: IndexKind, live: FrozenBitMap
) -> tuple[tuple[KindSegment, ...], tuple[SearchNote, ...]]:
    """The segments that can be asked together, and why others cannot."""
    entries = [judge_kind_segment(snapshot, kind, segment, live) for segment in index.segments]
    usable = [one for one in entries if isinstance(one, KindSegment)]
    alike = tuple(
        one
        for one in usable
        if declared_as(snapshot, one.segment, one.details)
        == declared_as(snapshot, usable[0].segment, usable[0].details)
    )
    notes = [_unusable(index, one) for one in entries if isinstance(one, Unusable)]
    if len(alike) < len(usable):
        notes.append(_other_declaration(index))
    notes += [_note(SearchReason.FORMAT_TOO_NEW, index.name, one.explanation) for one in index.skipped]
    return alike, tuple(dict.fromkeys(notes))


def _declarations(
    snapshot: TableSnapshot, index: IndexState, segments: Iterable[Segment]
) -> Iterator[tuple[Spec, tuple[Column | ComputedColumn, ...]]]:
    """What segments say that the index is, by the names of now."""
    for segment in segments:
        try:
            details = details_from_bytes(segment.details)
            columns = keys_of_segment(segment, details, snapshot.columns_by_field_id)
        except (DetailsError, InvalidRequestError, KeyError):
            continue
        spec = Spec(
            name=index.name,
            kind=index.kind,
            keys=keys_of(columns),
            parameters=dict(json.loads(details.parameters)),
            format=details.format,
        )
        yield spec, columns


def _plan(
    index: IndexState, kind: IndexKind, spec: Spec, request: KindRequest
) -> tuple[SearchProbe, ...] | SearchNote:
    probes = []
    for query in request.queries:
        try:
            with calling(kind, "plan_search"):
                probe = kind.plan_search(spec, query)
                if probe is not None and not isinstance(probe, SearchProbe):
                    raise TypeError(f"{type(probe).__name__} is no SearchProbe")
        except InvalidRequestError:
            raise
        except LancewrightError as error:
            return _note(SearchReason.PLUGIN_FAILED, index.name, error.problem)
        if probe is None:
            words = (
                f"kind {kind.name!r} over {', '.join(index.shown_keys)} does not rank by {', '.join(query)}"
            )
            return _note(SearchReason.QUERY_NOT_ACCEPTED, index.name, words)
        probes.append(probe)
    return tuple(probes)


def _kind_alone(snapshot: TableSnapshot, request: KindRequest, candidates: list[IndexState]) -> Choice | None:
    """Places are ranked without an index too, when it is known in which columns they are."""
    if any(set(query) != {NEAR} for query in request.queries):
        return None
    named = request.scope.columns or next(
        (index.columns for index in candidates if len(index.columns) == 2), ()
    )
    kind, plugin = PLUGINS.load(_PLACES), PLUGINS.ref(_PLACES)
    if len(named) != 2 or isinstance(kind, Unusable) or plugin is None:
        return None
    columns = tuple(find_column(snapshot.columns, name) for name in named)
    keys = keys_of(columns)
    spec = Spec(name="", kind=kind.name, keys=keys, parameters=kind.validate(keys, {}), format=kind.writes)
    probes = tuple(probe for query in request.queries if (probe := kind.plan_search(spec, query)) is not None)
    return Choice(name=None, kind=kind, plugin=plugin, spec=spec, columns=columns, probes=probes)


def _with_notes(request: KindRequest, choice: Choice, others: tuple[SearchNote, ...]) -> Choice:
    scope = request.scope
    if scope.strict and scope.use_index:
        # Of indexes nobody named, one that cannot be used here may have nothing to do with the query.
        _refuse_unusable((*choice.notes, *(others if scope.index or scope.columns else ())))
    subject = choice.name or ", ".join(key.name for key in choice.spec.keys)
    if not scope.use_index:
        used = _note(SearchReason.DISABLED, subject, "use_index=False: every row is looked at")
        return replace(choice, segments=(), notes=(used, *others))
    if choice.segments:
        words = f"{choice.kind.name}, {len(choice.segments)} segments, {choice.probes[0].text or 'ranks'}"
        used = _note(SearchReason.USED, subject, words)
    elif choice.name is None:
        used = _note(SearchReason.NO_INDEX, subject, "no index ranks by this: every row is looked at")
    else:
        used = _note(
            SearchReason.NO_COVERAGE, subject, "no segment of it can be asked: every row is looked at"
        )
    return replace(choice, notes=(used, *choice.notes, *others))


_HARMLESS = frozenset({SearchReason.OTHER_INDEX_CHOSEN, SearchReason.QUERY_NOT_ACCEPTED})


def _refuse_unusable(notes: tuple[SearchNote, ...]) -> None:
    for note in notes:
        if note.reason not in _HARMLESS:
            raise UnsupportedError(
                f"Index {note.subject!r} cannot be used: {note.reason.value}, {note.explanation}",
                "Mend that, or search without strict=True.",
            )


def _no_such_index(snapshot: TableSnapshot, request: KindRequest) -> InvalidRequestError:
    names = ", ".join(index.name for index in snapshot.indexes if is_kind_index(index)) or "none"
    where = f" on {', '.join(request.scope.columns)}" if request.scope.columns else ""
    return InvalidRequestError(
        f"There is no such index {request.scope.index!r}{where} that ranks", f"Indexes that may: {names}."
    )


def _nothing_ranks(
    snapshot: TableSnapshot, request: KindRequest, refused: tuple[SearchNote, ...]
) -> LancewrightError:
    asked = ", ".join(dict.fromkeys(name for query in request.queries for name in query))
    if not refused:
        return InvalidRequestError(
            f"No index of {snapshot.uri} ranks by {asked}",
            "Build one with create_index; places are ranked without one when column= names longitude and latitude.",
        )
    why = "; ".join(f"{note.subject}: {note.reason.value}, {note.explanation}" for note in refused)
    return UnsupportedError(
        f"No index of {snapshot.uri} can rank by {asked}: {why}", "Mend that, or build one that can."
    )


def _unusable(index: IndexState, trouble: Unusable) -> SearchNote:
    return _note(SearchReason(trouble.trouble.value), index.name, f"{trouble.problem}; {trouble.remedy}")


def _no_details(index: IndexState) -> SearchNote:
    why = index.skipped[0].explanation if index.skipped else "no segment says what it is; rebuild it"
    return _note(SearchReason.NOT_BUILT, index.name, why)


def _other_declaration(index: IndexState) -> SearchNote:
    return _note(
        SearchReason.FORMAT_OLD_REBUILD, index.name, "some segments were declared otherwise; refresh it"
    )


def _note(reason: SearchReason, subject: str, explanation: str) -> SearchNote:
    return SearchNote(reason=reason, subject=subject, explanation=explanation)
