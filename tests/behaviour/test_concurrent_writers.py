"""While an index is being built, others go on writing. The index is right all the same, and only what was lost is
built again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import lance
import pytest

import lancewright as lw
from lancewright.observe.events import BuildPlanned, TaskFinished
from lancewright.observe.sinks import MemorySink
from support.busy_table import (
    CASES,
    NEW,
    Case,
    append,
    busy_rows,
    busy_table,
    catch_up,
    compact,
    delete,
    fragment_ids,
    is_served,
    merge_column,
    rewrite_column,
    update_rows,
    wrong_answers,
    wrong_index_answers,
)
from support.runners import BusyRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lancewright.api import Receipt

MAIN_KINDS = ("btree", "bitmap", "inverted", "zonemap", "label_list", "ivf_pq", "ngram")


@dataclass(frozen=True)
class Writer:
    """What another writer commits while an index of a column of eight fragments is built, one entry per round.

    ``rebuilt``: the fragments each further round must build, when every fragment has a segment of its own.
    ``uncovered``: the fragments that nobody asked to have indexed.
    """

    name: str
    acts: tuple[Callable[[str, Case], object], ...]
    rebuilt: tuple[set[int], ...] = ()
    uncovered: frozenset[int] = frozenset()
    on_stable_row_ids: bool = True


def several(*acts: Callable[[str, Case], object]) -> Callable[[str, Case], None]:
    """One after the other, all in the same pause of the build."""

    def act(uri: str, case: Case) -> None:
        for one in acts:
            one(uri, case)

    return act


def appends(uri: str, _case: Case) -> None:
    append(uri)


def deletes(uri: str, _case: Case) -> None:
    delete(uri)


def deletes_a_fragment(uri: str, _case: Case) -> None:
    delete(uri, "id BETWEEN 300 AND 399")


def updates(uri: str, _case: Case) -> None:
    update_rows(uri, 210, 280)


def updates_the_first(uri: str, _case: Case) -> None:
    update_rows(uri, 10, 80)


def compacts(*fragments: int, deferred: bool = False) -> Callable[[str, Case], None]:
    return lambda uri, _case: compact(uri, fragments, deferred=deferred)


def catches_up(uri: str, _case: Case) -> None:
    catch_up(uri)


def rewrites(fragment: int, column: str | None = None) -> Callable[[str, Case], None]:
    return lambda uri, case: rewrite_column(uri, column or case.column, fragment)


def merges(uri: str, case: Case) -> None:
    merge_column(uri, case.column, 400, 430)


def restores(uri: str, _case: Case) -> None:
    lance.dataset(uri, version=1).restore()


def overwrites(uri: str, _case: Case) -> None:
    lance.write_dataset(busy_rows(range(300), NEW), uri, mode="overwrite", max_rows_per_file=100)


WRITERS = (
    Writer("compacts", (compacts(2, 3),), ({8},)),
    Writer("appends", (appends,), (), frozenset({8})),
    Writer("deletes", (deletes,)),
    Writer("deletes a whole fragment", (deletes_a_fragment,)),
    Writer("rewrites the column", (rewrites(4),), ({4},)),
    Writer("merges into the column", (merges,), ({4},)),
    Writer("rewrites another column", (rewrites(4, "other"),)),
    Writer("updates rows", (updates,), (), frozenset({8})),
    Writer("does everything", (several(appends, deletes, rewrites(5), compacts(2, 3)),), ({5, 9},), frozenset({8})),
    Writer("compacts in two rounds", (compacts(0, 1), compacts(2, 3)), ({8}, {9})),
    Writer("rewrites, then compacts", (several(rewrites(3), compacts(2, 3)),), ({8},)),
    Writer("compacts, then rewrites", (several(compacts(2, 3), rewrites(8)),), ({8},)),
    Writer("compacts what it updated", (several(updates_the_first, compacts(0, 1)),), ({9},), frozenset({8})),
    Writer("restores", (restores,), (set(range(8)),)),
    Writer("overwrites", (overwrites,), ({8, 9, 10},)),
    Writer("compacts later", (compacts(2, 3, deferred=True),), ({8},), on_stable_row_ids=False),
    Writer(
        "compacts later after a delete",
        (several(deletes, compacts(0, 1, deferred=True)),),
        ({8},),
        on_stable_row_ids=False,
    ),
    Writer(
        "compacts later, then rewrites",
        (several(compacts(2, 3, deferred=True), rewrites(8)),),
        ({8},),
        on_stable_row_ids=False,
    ),
    Writer(
        "rewrites, then compacts later",
        (several(rewrites(3), compacts(2, 3, deferred=True)),),
        ({8},),
        on_stable_row_ids=False,
    ),
    Writer(
        "compacts later what it appended",
        (several(appends, catches_up, compacts(7, 8, deferred=True)),),
        ({9},),
        on_stable_row_ids=False,
    ),
)  # fmt: skip
# Rows that moved next to others: with stable row ids some kinds must rebuild where the rows came from, too.
MOVES = Writer("moves rows into a covered fragment", (several(updates, catches_up, compacts(7, 8)),), ({9},))
HARD = (MOVES, *(writer for writer in WRITERS if "everything" in writer.name or "later" in writer.name))


def parameters(kinds: tuple[str, ...], writers: tuple[Writer, ...] = WRITERS) -> list[object]:
    return [
        pytest.param(kind, writer, stable, id=f"{kind}-{writer.name}-{'stable' if stable else 'addresses'}")
        for kind in kinds
        for writer in writers
        for stable in (False, True)
        if not stable or writer.on_stable_row_ids
    ]


def build(uri: str, kind: str, writer: Writer, segments: int | None) -> tuple[Receipt, MemorySink]:
    case = CASES[kind]
    runner = BusyRunner([lambda act=act: act(uri, case) for act in writer.acts])
    sink = MemorySink()
    table = lw.open(uri, runner=runner, sink=sink, progress=False)
    receipt = table.create_index(case.column, kind=kind, name="ours", segments=segments, **case.parameters)
    return receipt, sink


def built_per_round(sink: MemorySink) -> list[set[int]]:
    rounds: list[set[int]] = []
    for event in sink.events:
        if isinstance(event, BuildPlanned):
            rounds.append(set())
        elif isinstance(event, TaskFinished) and event.stage == "build":
            rounds[-1].update(event.fragments)
    return rounds


def covered(uri: str) -> set[int]:
    (info,) = [info for info in lw.open(uri, progress=False).indexes() if info.name == "ours"]
    return set(info.coverage.covered)


@pytest.mark.parametrize(("kind", "writer", "stable"), parameters(MAIN_KINDS))
def test_only_lost_fragments_are_built_again_and_the_answers_are_right(
    tmp_path: Path, kind: str, writer: Writer, stable: bool
) -> None:
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=stable).uri

    _, sink = build(uri, kind, writer, segments=8)

    first, *further = built_per_round(sink)
    assert first == set(range(8))
    assert tuple(further) == writer.rebuilt
    assert covered(uri) == fragment_ids(uri) - writer.uncovered
    assert is_served(uri, CASES[kind])
    assert wrong_answers(uri, CASES[kind]) == []
    assert wrong_index_answers(uri, CASES[kind], sorted(covered(uri))) == []


@pytest.mark.parametrize(
    ("kind", "writer", "stable"),
    parameters(("bitmap", "inverted", "ivf_pq", "ivf_sq", "fm", "ivf_hnsw_flat"), HARD),
)
def test_a_merged_index_is_right_and_complete_too(
    tmp_path: Path, kind: str, writer: Writer, stable: bool
) -> None:
    uri = busy_table(str(tmp_path / "table"), stable_row_ids=stable).uri

    receipt, _ = build(uri, kind, writer, segments=None)

    assert covered(uri) == fragment_ids(uri) - writer.uncovered
    assert receipt.indexes[0].fragments == len(covered(uri))
    assert is_served(uri, CASES[kind])
    assert wrong_answers(uri, CASES[kind]) == []
    assert wrong_index_answers(uri, CASES[kind], sorted(covered(uri))) == []
