"""Builds segments anew that a verification found wrong, with the options they have, and swaps them in one commit.

Only their fragments are read. Segments that would be wrong beside newer ones are built anew with them, by the rules of a refresh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.build.index_work import adopt_segments
from lancewright.build.rounds import BuildOptions, Order, run_rounds
from lancewright.errors import LancewrightError
from lancewright.kinds.registry import native_kind_of
from lancewright.maintain.evidence import Past
from lancewright.maintain.inherit import begin_refresh, inherit_request
from lancewright.maintain.judgement import EXPLANATIONS, Fate, Judgement, explain_unkept
from lancewright.maintain.kind_judgement import inherit_kind_request, is_kept, judge
from lancewright.table.snapshot_reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancewright.build.index_work import IndexWork
    from lancewright.build.resolve import ResolvedRequest
    from lancewright.build.rounds import Move
    from lancewright.maintain.checks.findings import Finding
    from lancewright.model.index import IndexState
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.observe.sinks import Sink
    from lancewright.runtime.runner import Runner
    from lancewright.table.history import History
    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """What a repair did for one index: segments built anew, the rows read for that, and segments written anew from their own files.

    ``findings`` are what was wrong; ``problem`` says why nothing could be done.
    """

    name: str
    kind: str
    segments: int = 0
    fragments: int = 0
    rows: int = 0
    rewritten: int = 0
    reasons: tuple[str, ...] = ()
    problem: str | None = None
    findings: tuple[Finding, ...] = ()


def repair_indexes(
    table: TableRef,
    runner: Runner,
    sink: Sink,
    options: BuildOptions,
    wrong: Mapping[str, frozenset[str]],
) -> list[Mended]:
    """Build anew the segments named by uuid, by index, in one job and one commit."""
    snapshot = read_snapshot(table.latest())
    works: list[IndexWork] = []
    told: list[Mended] = []
    for name, uuids in wrong.items():
        index = snapshot.index(name)
        if index is None:
            continue  # dropped meanwhile
        try:
            work, line = _plan_index(table, snapshot, index, uuids)
        except LancewrightError as error:
            work, line = None, Mended(name=name, kind=index.kind, problem=str(error))
        works += [work] if work is not None else []
        told.append(line)
    if works:
        order = Order(table=table, snapshot=snapshot, works=tuple(works), move=_move_repair(table, wrong))
        run_rounds(order, runner, sink, options)
    return told


def _plan_index(
    table: TableRef, snapshot: TableSnapshot, index: IndexState, uuids: frozenset[str]
) -> tuple[IndexWork | None, Mended]:
    if not is_kept(index):
        return None, Mended(name=index.name, kind=index.kind, problem=explain_unkept(index))
    judgement = _judge(table, snapshot, index, uuids)
    gone = [verdict for verdict in judgement.verdicts if verdict.fate is not Fate.KEEP]
    told = Mended(
        name=index.name,
        kind=index.kind,
        segments=len(judgement.segments(Fate.REBUILD)) + len(judgement.segments(Fate.DROP)),
        fragments=len(judgement.to_build),
        rows=sum(snapshot.fragments_by_id[fragment].rows for fragment in judgement.to_build),
        rewritten=len(judgement.segments(Fate.REWRITE)),
        reasons=tuple(dict.fromkeys(EXPLANATIONS[verdict.cause] for verdict in gone)),
    )
    return begin_refresh(judgement, _inherit(table, snapshot, judgement)), told


def _move_repair(table: TableRef, wrong: Mapping[str, frozenset[str]]) -> Move:
    """After a conflict: judge again, as long as a wrong segment is still there. What another writer made of it is newer."""

    def move(work: IndexWork, snapshot: TableSnapshot, history: History) -> IndexWork | None:
        index = snapshot.index(work.name)
        left = wrong[work.name] & {segment.uuid for segment in snapshot.segments_named(work.name)}
        if index is None or not left:
            return None
        judgement = _judge(table, snapshot, index, left)
        begun = begin_refresh(judgement, _inherit(table, snapshot, judgement))
        return adopt_segments(begun, snapshot, work.built, history)

    return move


def _judge(table: TableRef, snapshot: TableSnapshot, index: IndexState, uuids: frozenset[str]) -> Judgement:
    """The judgement of a refresh, without the fragments that nothing covered before."""
    judgement = judge(table, snapshot, index, Past(table, snapshot), uuids)
    kind = native_kind_of(index)
    if kind is not None and kind.whole_table:
        return judgement
    claimed = FrozenBitMap().union(
        *(segment.covered for segment in index.segments), *(entry.segment.covered for entry in index.skipped)
    )
    return replace(
        judgement,
        to_build=FrozenBitMap(judgement.to_build & claimed),
        wanted=FrozenBitMap(judgement.wanted & claimed),
    )


def _inherit(table: TableRef, snapshot: TableSnapshot, judgement: Judgement) -> ResolvedRequest:
    kind = native_kind_of(judgement.index)
    if kind is None:
        return inherit_kind_request(table.pinned(snapshot.version), snapshot, judgement)
    return inherit_request(table, snapshot, judgement, kind, lenient=True)
