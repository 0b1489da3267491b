"""What is kept of a build when the table moved on, under any history, against the rules spelled out by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from lancewright.model.snapshot import REWRITTEN, DataFile
from lancewright.table.conflict import (
    Rewrite,
    SalvageRule,
    find_overlap,
    follow_fragments,
    prove_fragments,
    salvage_segments,
)
from support.values import LEAF, built, fragment, segment, snapshot

if TYPE_CHECKING:
    from lancewright.model.snapshot import Fragment, TableSnapshot
    from lancewright.table.conflict import BuiltSegment, FragmentProof

RULES = [
    SalvageRule(trims_alive=alive, trims_gone=gone, needs_untouched_rows=untouched, deletions_only_grow=grow)
    for alive, gone, untouched, grow in product([False, True], repeat=4)
]
KEEPS_ALL = SalvageRule(trims_alive=True, trims_gone=True)
KEEPS_WHOLE = SalvageRule(trims_alive=False, trims_gone=False)
FRAGMENTS_MAX = 10


@dataclass(frozen=True)
class _World:
    """A table when segments were built, the same table later, and what happened to each fragment in between."""

    before: TableSnapshot
    after: TableSnapshot
    segments: tuple[BuiltSegment, ...]
    gone: frozenset[int]
    rewritten: frozenset[int]
    deleted: frozenset[int]


def _rewrite(entry: Fragment, leaf: int) -> Fragment:
    first = replace(
        entry.files[0], field_ids=tuple(REWRITTEN if id_ == leaf else id_ for id_ in entry.files[0].field_ids)
    )
    return replace(entry, files=(first, DataFile(path=f"{entry.id}-{leaf}.lance", field_ids=(leaf,))))


@st.composite
def _worlds(draw: st.DrawFn) -> _World:
    count = draw(st.integers(1, FRAGMENTS_MAX))
    stamps = draw(st.lists(st.sampled_from([None, "1-1"]), min_size=count, max_size=count))
    before = snapshot([fragment(id_, stamp=stamp) for id_, stamp in enumerate(stamps)], version=3)
    cuts = sorted(draw(st.sets(st.integers(1, count))) | {count})
    segments, start = [], 0
    for end in cuts:
        segments.append(built(before, range(start, end)))
        start = end
    subsets = st.frozensets(st.sampled_from(range(count)))
    gone, rewritten, other, deleted = (draw(subsets) for _ in range(4))
    after = []
    for entry in before.fragments:
        if entry.id in gone:
            continue
        changed = _rewrite(entry, LEAF) if entry.id in rewritten else entry
        changed = _rewrite(changed, 1) if entry.id in other - rewritten else changed
        after.append(
            replace(changed, deletion_stamp="9-9", deleted_rows=1) if entry.id in deleted else changed
        )
    after += [
        fragment(100 + number) for number in range(draw(st.integers(0, 2)))
    ]  # appended, or compacted into
    return _World(
        before=before,
        after=snapshot(after, version=9),
        segments=tuple(segments),
        gone=gone,
        rewritten=rewritten,
        deleted=deleted,
    )


def _holds(world: _World, proof: FragmentProof, rule: SalvageRule) -> bool:
    """The rules as the documentation says them."""
    id_ = proof.fragment_id
    if id_ in world.gone or id_ in world.rewritten:
        return False
    if id_ not in world.deleted:
        return True
    if rule.needs_untouched_rows:
        return False
    return rule.deletions_only_grow or proof.deletion_stamp is None


def _expected_cover(world: _World, candidate: BuiltSegment, rule: SalvageRule) -> set[int]:
    holding = {proof.fragment_id for proof in candidate.proofs if _holds(world, proof, rule)}
    lost = set(candidate.segment.covered) - holding
    if any(not (rule.trims_gone if id_ in world.gone else rule.trims_alive) for id_ in lost):
        return set()
    return holding


@given(_worlds(), st.sampled_from(RULES))
def test_exactly_what_the_rules_allow_is_kept(world: _World, rule: SalvageRule) -> None:
    wanted = FrozenBitMap(world.after.fragments_by_id)

    salvage = salvage_segments(world.after, world.segments, wanted, (LEAF,), rule)

    expected = {
        candidate.segment.uuid: cover
        for candidate in world.segments
        if (cover := _expected_cover(world, candidate, rule))
    }
    assert {kept.segment.uuid: set(kept.segment.covered) for kept in salvage.kept} == expected


@given(_worlds(), st.sampled_from(RULES), st.data())
def test_what_is_kept_and_what_is_lost_make_up_what_is_wanted(
    world: _World, rule: SalvageRule, data: st.DataObject
) -> None:
    alive = world.after.fragments_by_id
    wanted = FrozenBitMap(data.draw(st.sets(st.sampled_from(sorted(alive)))) if alive else ())

    salvage = salvage_segments(world.after, world.segments, wanted, (LEAF,), rule)

    covers = [set(kept.segment.covered) for kept in salvage.kept]
    kept = set().union(*covers)
    assert sum(len(cover) for cover in covers) == len(kept)
    assert not find_overlap(entry.segment for entry in salvage.kept)
    assert kept <= set(alive)
    assert kept.isdisjoint(salvage.lost)
    assert (kept & set(wanted)) | set(salvage.lost) == set(wanted)


@given(_worlds())
def test_a_kind_that_cannot_be_trimmed_keeps_a_segment_whole_or_not_at_all(world: _World) -> None:
    salvage = salvage_segments(world.after, world.segments, FrozenBitMap(), (LEAF,), KEEPS_WHOLE)

    assert all(kept in world.segments for kept in salvage.kept)
    assert not any(kept.trimmed for kept in salvage.kept)


@given(_worlds(), st.sampled_from(RULES))
def test_a_kept_segment_says_truly_whether_it_was_trimmed_and_proves_what_it_covers(
    world: _World, rule: SalvageRule
) -> None:
    originals = {candidate.segment.uuid: candidate for candidate in world.segments}

    salvage = salvage_segments(world.after, world.segments, FrozenBitMap(), (LEAF,), rule)

    for kept in salvage.kept:
        original = originals[kept.segment.uuid]
        assert kept.trimmed == (kept.segment.covered != original.segment.covered)
        assert {proof.fragment_id for proof in kept.proofs} == set(kept.segment.covered)
        assert replace(kept.segment, fragments=original.segment.fragments) == original.segment


@given(_worlds(), st.sampled_from(RULES))
def test_salvaging_twice_keeps_the_same(world: _World, rule: SalvageRule) -> None:
    wanted = FrozenBitMap(world.after.fragments_by_id)

    once = salvage_segments(world.after, world.segments, wanted, (LEAF,), rule)

    assert salvage_segments(world.after, once.kept, wanted, (LEAF,), rule) == once


@given(_worlds(), st.sampled_from(RULES))
def test_nothing_is_lost_on_a_table_that_did_not_change(world: _World, rule: SalvageRule) -> None:
    wanted = FrozenBitMap(world.before.fragments_by_id)

    salvage = salvage_segments(world.before, world.segments, wanted, (LEAF,), rule)

    assert salvage.kept == world.segments
    assert not salvage.lost


@given(_worlds(), st.sampled_from(RULES), st.data())
def test_segments_of_several_attempts_never_overlap_once_salvaged(
    world: _World, rule: SalvageRule, data: st.DataObject
) -> None:
    ids = st.sets(st.sampled_from(sorted(world.before.fragments_by_id)))
    more = [built(world.before, cover) for cover in data.draw(st.lists(ids, max_size=4))]

    salvage = salvage_segments(world.after, [*world.segments, *more], FrozenBitMap(), (LEAF,), rule)

    assert not find_overlap(kept.segment for kept in salvage.kept)


def test_a_segment_trimmed_before_stays_marked_though_all_of_it_holds_now() -> None:
    table = snapshot([fragment(0), fragment(1)])
    trimmed = replace(built(table, [0]), trimmed=True)

    (kept,) = salvage_segments(table, [trimmed], FrozenBitMap([0, 1]), (LEAF,), KEEPS_ALL).kept

    assert kept.trimmed


def test_an_empty_segment_is_kept_whatever_happened() -> None:
    empty = built(snapshot([fragment(0)]), [])

    salvage = salvage_segments(snapshot([]), [empty], FrozenBitMap(), (LEAF,), KEEPS_WHOLE)

    assert salvage.kept == (empty,)


def test_a_rewrite_of_another_column_loses_nothing() -> None:
    before = snapshot([fragment(0), fragment(1)])
    candidate = built(before, [0, 1])

    after = snapshot([_rewrite(fragment(0), 1), fragment(1)])

    assert salvage_segments(after, [candidate], FrozenBitMap([0, 1]), (LEAF,), KEEPS_WHOLE).kept == (
        candidate,
    )
    assert not salvage_segments(after, [candidate], FrozenBitMap([0, 1]), (1,), KEEPS_WHOLE).kept


@pytest.mark.parametrize("rule", RULES)
def test_a_fragment_that_came_back_under_another_file_is_not_trusted(rule: SalvageRule) -> None:
    candidate = built(snapshot([fragment(0, path="old.lance")]), [0])

    salvage = salvage_segments(
        snapshot([fragment(0, path="new.lance")]), [candidate], FrozenBitMap([0]), (LEAF,), rule
    )

    assert (salvage.kept, set(salvage.lost)) == ((), {0})


def test_a_proof_names_the_files_of_the_column_and_the_deletions_that_were_seen() -> None:
    (proof,) = prove_fragments([_rewrite(fragment(4, stamp="7-1"), LEAF)], (LEAF,))

    assert (proof.fragment_id, proof.column_stamp, proof.deletion_stamp) == (4, "4-0.lance", "7-1")


# --- following fragments through compactions ---


@dataclass(frozen=True)
class _Chain:
    rewrites: tuple[Rewrite, ...]
    rows: dict[int, frozenset[int]]
    """Every fragment left at the end, with the first fragments whose rows it holds."""


@st.composite
def _chains(draw: st.DrawFn) -> _Chain:
    rows = {id_: frozenset([id_]) for id_ in range(draw(st.integers(1, 8)))}
    rewrites, next_id = [], 100
    for _ in range(draw(st.integers(0, 5))):
        old = draw(st.sets(st.sampled_from(sorted(rows)), min_size=1))
        new = set(range(next_id, next_id + draw(st.integers(1, 3))))
        next_id += len(new)
        moved = frozenset().union(*(rows.pop(id_) for id_ in old))
        rows |= dict.fromkeys(new, moved)
        rewrites.append(Rewrite(old=FrozenBitMap(old), new=FrozenBitMap(new)))
    return _Chain(rewrites=tuple(rewrites), rows=rows)


@given(_chains(), st.data())
def test_wanted_rows_are_followed_through_any_chain_of_compactions(
    chain: _Chain, data: st.DataObject
) -> None:
    wanted = data.draw(st.sets(st.integers(0, 7)))
    left = data.draw(st.sets(st.sampled_from(sorted(chain.rows))))  # the others were deleted at the end

    now = follow_fragments(
        FrozenBitMap(wanted), chain.rewrites, snapshot([fragment(id_) for id_ in sorted(left)])
    )

    assert set(now) == {id_ for id_ in left if chain.rows[id_] & wanted}


def test_compactions_of_fragments_nobody_wants_are_not_followed() -> None:
    rewrites = [Rewrite(old=FrozenBitMap([1, 2]), new=FrozenBitMap([9]))]

    now = follow_fragments(FrozenBitMap([0]), rewrites, snapshot([fragment(0), fragment(9)]))

    assert set(now) == {0}


# --- overlap ---


@given(st.lists(st.none() | st.sets(st.integers(0, 20)), max_size=6))
def test_an_overlap_is_what_more_than_one_segment_claims(claims: list[set[int] | None]) -> None:
    counts = [id_ for claim in claims for id_ in claim or ()]

    overlap = find_overlap(segment(claim) for claim in claims)

    assert set(overlap) == {id_ for id_ in counts if counts.count(id_) > 1}


@given(_worlds())
def test_a_whole_build_has_no_overlap_and_one_segment_twice_has(world: _World) -> None:
    entries = [candidate.segment for candidate in world.segments]
    assume(entries[0].covered)

    assert not find_overlap(entries)
    assert find_overlap([*entries, entries[0]]) == entries[0].covered
