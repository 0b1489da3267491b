"""Whatever the values and whatever happens to the table, a sorted BTree and its merges answer what a scan answers.

``LANCEWRIGHT_EXAMPLES`` sets the number of examples, of which a quarter is tried here (300).
"""

from __future__ import annotations

import os
import tempfile
from datetime import timedelta
from typing import TYPE_CHECKING

import lance
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import lancewright as lw
from lancewright.build.range_merge import RangeMerge, merge_ranges
from lancewright.model.columns import find_column
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.commit import IndexChange, commit_segments
from lancewright.table.location import table_ref
from lancewright.table.snapshot_reader import read_snapshot
from properties.test_range_btree import World, rows_of, worlds, write_world
from support.range_delta import RangeDelta, build_delta
from support.tables import ids

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = max(1, int(os.environ.get("LANCEWRIGHT_EXAMPLES", "300")) // 4)


def append(world: World, uri: str) -> None:
    """The world's values once more, turned around, under new ids."""
    fresh = rows_of(world, list(reversed(world.values)), 10_000 * lance.dataset(uri).version)
    lance.write_dataset(fresh, uri, mode="append", max_rows_per_file=world.rows_per_fragment)


def delete(_world: World, uri: str) -> None:
    lance.dataset(uri).delete(f"id % 5 = {lance.dataset(uri).version % 5}")


def update(_world: World, uri: str) -> None:
    """Rewrites rows, so that they get new addresses."""
    lance.dataset(uri).update({"id": "id"}, where="id % 3 = 1")


def merge_insert(world: World, uri: str) -> None:
    """Gives the first rows the values of the last ones."""
    merge = lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows_of(world, list(reversed(world.values))[:40]))


def optimize(world: World, uri: str, **options: int) -> None:
    try:
        lance.dataset(uri).optimize.optimize_indices(**options)
    except OSError as error:
        # Lance 14 looks for a nested column by its last name when it makes a delta, also over an index of its own.
        if not world.nested or "No column with name" not in str(error):
            raise


def add_lances_delta(world: World, uri: str) -> None:
    optimize(world, uri, num_indices_to_merge=0)


def compact(_world: World, uri: str) -> None:
    lance.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)


def compact_deferred(_world: World, uri: str) -> None:
    dataset = lance.dataset(uri)
    deferred = not dataset.has_stable_row_ids  # Lance refuses to defer with stable row ids
    dataset.optimize.compact_files(materialize_deletions_threshold=0.0, defer_index_remap=deferred)


def prewarm(_world: World, uri: str) -> None:
    lance.dataset(uri).prewarm_index("ours")


def clean_up(_world: World, uri: str) -> None:
    lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0))


def add_our_delta(world: World, uri: str) -> None:
    table = table_ref(uri)
    snapshot = read_snapshot(table)
    covered = {fragment for segment in snapshot.segments_named("ours") for fragment in segment.covered}
    new = set(snapshot.fragments_by_id) - covered
    if new:
        delta = RangeDelta(
            table=table, snapshot=snapshot, name="ours", column=find_column(snapshot.columns, world.path),
            fragments=new, parameters=world.parameters,
        )  # fmt: skip
        commit_segments(table, snapshot, IndexChange(add=(build_delta(delta, LocalRunner()),)))


def merge_ours(world: World, uri: str) -> None:
    table = table_ref(uri)
    snapshot = read_snapshot(table)
    sources = snapshot.segments_named("ours")
    if any(set(segment.covered) & set(snapshot.fragments_by_id) for segment in sources):
        merge = RangeMerge(
            table=table, snapshot=snapshot, column=find_column(snapshot.columns, world.path), sources=sources,
            parameters=world.parameters,
        )  # fmt: skip
        merged = merge_ranges(merge, LocalRunner())
        commit_segments(table, snapshot, IndexChange(remove=sources, add=(merged.segment,)))


ACTS: tuple[Callable[[World, str], None], ...] = (
    append, delete, update, merge_insert, optimize, add_lances_delta, compact, compact_deferred, prewarm, clean_up,
    add_our_delta, merge_ours,
)  # fmt: skip


@settings(
    max_examples=EXAMPLES, deadline=None, print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)  # fmt: skip
@given(
    world=worlds(),
    acts=st.lists(
        st.sampled_from([*ACTS, append, delete, add_our_delta, merge_ours]), min_size=1, max_size=7
    ),
)
def test_answers_stay_those_of_a_scan_whatever_happens(
    world: World, acts: list[Callable[[World, str], None]]
) -> None:
    with tempfile.TemporaryDirectory(prefix="lancewright-test-") as folder:
        uri = f"{folder}/table"
        if write_world(world, uri).count_rows() == 0:
            return
        lw.open(uri, progress=False).create_index(world.path, kind="btree", name="ours", **world.parameters)
        for act in acts:
            note(act.__name__)
            act(world, uri)
            dataset = lance.dataset(uri)
            wrong = [
                question
                for question in world.questions
                if ids(dataset, question, use_index=True) != ids(dataset, question, use_index=False)
            ]
            assert wrong == []
