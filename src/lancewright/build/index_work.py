"""Where one index of a build stands: what it shall cover and what is at hand. Pure.

Every function takes the work to a table that moved on and says what of it still holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyroaring import FrozenBitMap

from lancewright.build.plan import BuildPlan, IndexDemand, plan_index
from lancewright.errors import ConflictError
from lancewright.model.computed import ComputedColumn, restate
from lancewright.table.conflict import BuiltSegment, SalvageRule, follow_fragments, salvage_segments
from lancewright.table.fragment_reuse import FRAGMENT_REUSE_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancewright.build.resolve import ResolvedRequest
    from lancewright.model.columns import Column
    from lancewright.model.index import Segment
    from lancewright.model.snapshot import TableSnapshot
    from lancewright.table.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWork:
    """One index: the fragments it shall cover and the finished segments that nobody can see yet.

    ``swaps``: the commit takes out what carries this name now, but not what ``stays``: segments that an earlier commit
    of this build made visible and that came through whole, or that were there before and need no work. ``committed``:
    there was a commit of this build. ``rewrites``: groups of segments the table has, each to be rewritten into one.
    ``rows_per_task_min``: a task with fewer rows costs more than it saves.
    """

    resolved: ResolvedRequest
    wanted: FrozenBitMap
    built: tuple[BuiltSegment, ...] = ()
    swaps: bool = False
    stays: tuple[Segment, ...] = ()
    committed: bool = False
    rewrites: tuple[tuple[Segment, ...], ...] = ()
    rows_per_task_min: int = 0

    @property
    def name(self) -> str:
        """The index's name."""
        return self.resolved.spec.name

    @property
    def missing(self) -> FrozenBitMap:
        """The fragments that no visible segment of this build covers."""
        return FrozenBitMap(self.wanted - FrozenBitMap().union(*(segment.covered for segment in self.stays)))

    @property
    def uncovered(self) -> FrozenBitMap:
        """The fragments that no segment covers, visible or not."""
        covered = FrozenBitMap().union(*(built.segment.covered for built in self.built))
        return FrozenBitMap(self.missing - covered)


def begin_work(entry: ResolvedRequest, snapshot: TableSnapshot) -> IndexWork:
    """The work before anything is built."""
    wanted = FrozenBitMap(snapshot.fragments_by_id) if entry.spec.train else FrozenBitMap()
    return IndexWork(resolved=entry, wanted=wanted, swaps=entry.request.replace)


def plan_round(snapshot: TableSnapshot, works: Sequence[IndexWork], parallelism: int) -> BuildPlan:
    """Plan what the works lack at this version of the table."""
    return BuildPlan(
        table=snapshot.uri,
        version=snapshot.version,
        parallelism=parallelism,
        indexes=tuple(plan_index(snapshot, _demand(work), parallelism) for work in works),
    )


def _demand(work: IndexWork) -> IndexDemand:
    return IndexDemand(
        spec=work.resolved.spec,
        kind=work.resolved.kind,
        wanted=work.missing,
        reused=work.built,
        segments=work.resolved.request.segments,
        rewrites=work.rewrites,
        may_be_nothing=bool(work.stays or work.rewrites),
        rows_per_task_min=work.rows_per_task_min,
    )


def adopt_segments(
    work: IndexWork, snapshot: TableSnapshot, finished: Sequence[BuiltSegment], history: History
) -> IndexWork:
    """Add what else is finished, as far as the table bears it out and the work still lacks it.

    ``history`` reaches back to the oldest of them.
    """
    return _keep_fitting(replace(work, built=(*work.built, *finished)), snapshot, history)


def move_work(work: IndexWork, snapshot: TableSnapshot, history: History) -> IndexWork:
    """Take the work to a later version; raise ConflictError when what was asked makes no sense there."""
    work = _require_asked(work, snapshot)
    if not work.resolved.spec.train:
        return work
    if history.complete:
        wanted = follow_fragments(work.wanted, history.rewrites, snapshot)
    else:
        # The table was replaced, or nobody can say what happened: everything there is now is wanted.
        wanted = FrozenBitMap(snapshot.fragments_by_id)
    visible = {segment.uuid for segment in work.stays}
    stays = tuple(segment for segment in snapshot.segments_named(work.name) if segment.uuid in visible)
    fitting = _keep_fitting(replace(work, wanted=wanted, stays=stays, rewrites=()), snapshot, history)
    return _widen(fitting, snapshot)


def is_made_by_other(work: IndexWork, snapshot: TableSnapshot) -> bool:
    """True when the caller is content with an index of this name, and another writer created it meanwhile."""
    asked = work.resolved.request.if_not_exists and not work.swaps and not work.committed
    return asked and bool(snapshot.segments_named(work.name))


def find_untrusted(work: IndexWork, snapshot: TableSnapshot, history: History) -> FrozenBitMap:
    """Fragments a finished segment covers, for which it may not be committed from the version it was built at.

    Their column was rewritten in place, or a deferred compaction took them and the segment cannot follow. Lance takes
    most rewritten fragments out of the coverage, but not those of a list, nor those it finds under another id.
    """
    leaf_ids, alive = work.resolved.spec.leaf_ids, snapshot.fragments_by_id
    proofs = [proof for built in work.built for proof in built.proofs]
    rewritten = FrozenBitMap(
        proof.fragment_id
        for proof in proofs
        if proof.fragment_id in alive and alive[proof.fragment_id].stamp(leaf_ids) != proof.column_stamp
    )
    if history.complete and not history.columns_rewritten and work.resolved.kind.follows_deferred_compaction:
        return rewritten
    gone = FrozenBitMap(proof.fragment_id for proof in proofs if proof.fragment_id not in alive)
    if history.complete:
        gone &= FrozenBitMap().union(*(rewrite.old for rewrite in history.rewrites))
    return FrozenBitMap(rewritten | gone)


def segments_to_remove(work: IndexWork, snapshot: TableSnapshot) -> tuple[Segment, ...]:
    """What the commit of this work takes out of the table."""
    stays = {segment.uuid for segment in work.stays}
    named = snapshot.segments_named(work.name) if work.swaps else ()
    return tuple(segment for segment in named if segment.uuid not in stays)


def work_left(work: IndexWork, committed: TableSnapshot, history: History) -> IndexWork | None:
    """After a commit: what the index lost to commits that came in between, as work for another round."""
    if not work.resolved.spec.train:
        return None
    wanted = follow_fragments(work.wanted, history.rewrites, committed)
    untrusted = find_untrusted(work, committed, history)
    published = [*work.stays, *(built.segment for built in work.built)]
    visible = {segment.uuid: segment for segment in committed.segments_named(work.name)}
    # What a segment lost still exists, so the others stay only where a kind lets fragments change segments.
    rule = _salvage_rule(work.resolved, committed, history)
    stays = tuple(
        visible[segment.uuid]
        for segment in published
        if segment.uuid in visible
        and segment.covered.isdisjoint(untrusted)
        and (rule.trims_alive or _is_whole(segment, visible[segment.uuid], committed, history))
    )
    left = replace(work, wanted=wanted, built=(), rewrites=(), stays=stays, swaps=True, committed=True)
    if not left.missing:
        return None
    return _widen(replace(left, stays=()), committed) if work.resolved.kind.single_segment else left


def _widen(work: IndexWork, snapshot: TableSnapshot) -> IndexWork:
    """Take in what others appended, where a kind that has to be built again can only be built over the whole table."""
    if not work.resolved.kind.whole_table or work.built or not work.uncovered:
        return work
    return replace(work, wanted=FrozenBitMap(snapshot.fragments_by_id))


def _is_whole(segment: Segment, visible: Segment, committed: TableSnapshot, history: History) -> bool:
    return follow_fragments(segment.covered, history.rewrites, committed) <= visible.covered


def _require_asked(work: IndexWork, snapshot: TableSnapshot) -> IndexWork:
    spec = work.resolved.spec
    columns = tuple(_require_same(column, work.name, snapshot) for column in spec.columns)
    if spec.train and not snapshot.rows:
        raise ConflictError(
            f"The table was emptied while index {work.name!r} was being built",
            "Append rows first, or pass train=False to create the empty index now.",
        )
    _require_name(work, exists=bool(snapshot.segments_named(work.name)))
    # It may have another name by now.
    keys = tuple(
        restate(key, snapshot.columns_by_field_id)
        if isinstance(key, ComputedColumn)
        else snapshot.columns_by_field_id[key.field_id]
        for key in spec.keys
    )
    kept = tuple(snapshot.columns_by_field_id[column.field_id] for column in spec.kept)
    moved = replace(spec, column=columns[0], more_columns=columns[1:], keys=keys, kept=kept)
    return replace(work, resolved=replace(work.resolved, spec=moved))


def _require_same(column: Column, index: str, snapshot: TableSnapshot) -> Column:
    found = snapshot.columns_by_field_id.get(column.field_id)
    if found is None or found.type != column.type:
        raise ConflictError(
            f"Column {column.path!r} was dropped or changed while index {index!r} was being built",
            "Read the table again and index a column that exists.",
        )
    return found


def _require_name(work: IndexWork, *, exists: bool) -> None:
    if exists and not work.swaps and not work.committed:
        raise ConflictError(
            f"Another writer created an index named {work.name!r} while this one was being built",
            "Pass replace=True to replace it, or another name=.",
        )
    if not exists and (work.resolved.exists or work.committed):
        raise ConflictError(
            f"Index {work.name!r} was dropped while it was being built; it stays dropped",
            "Create it again if it is still wanted.",
        )


def _keep_fitting(work: IndexWork, snapshot: TableSnapshot, history: History) -> IndexWork:
    rule = _salvage_rule(work.resolved, snapshot, history)
    leaf_ids = work.resolved.spec.leaf_ids
    salvage = salvage_segments(snapshot, work.built, work.missing, leaf_ids, rule)
    spoiled = work.resolved.kind.single_segment and salvage.lost
    return replace(work, built=() if spoiled else salvage.kept)


def _salvage_rule(resolved: ResolvedRequest, snapshot: TableSnapshot, history: History) -> SalvageRule:
    kind = resolved.kind
    trimming = kind.trimming_on_stable_row_ids if snapshot.stable_row_ids else kind.trimming_on_addresses
    # After a deferred compaction, postings of a fragment that is gone stand for rows of the one it became.
    followed = any(segment.name == FRAGMENT_REUSE_NAME for segment in snapshot.segments)
    return SalvageRule(
        trims_alive=trimming.alive,
        trims_gone=trimming.gone and (trimming.alive or not followed),
        needs_untouched_rows=snapshot.stable_row_ids and kind.stale_on_update and history.rows_moved,
        deletions_only_grow=history.complete,
    )
