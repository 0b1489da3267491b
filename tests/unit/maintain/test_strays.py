"""Which files of a listing nobody needs."""

from __future__ import annotations

import pytest

from lancewright.maintain.builds import KnownBuild, State
from lancewright.maintain.strays import find_strays, has_detached_versions
from lancewright.table.references import References
from lancewright.table.stored_files import StoredFile

USED, STRAY = "11111111-2222-3333-4444-555555555555", "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
OLD, YOUNG, LIMIT = 100.0, 300.0, 200.0
REFERENCES = References(segments=frozenset({USED}), files=frozenset({"data/used.lance"}))


def file(path: str, modified: float = OLD) -> StoredFile:
    return StoredFile(path=path, size_bytes=1, modified=modified)


def build(state: State, started: float = OLD, segments: tuple[str, ...] = ()) -> KnownBuild:
    return KnownBuild(
        folder="_lancewright/builds/one",
        state=state,
        started=started,
        last_seen=started,
        segments=frozenset(segments),
        versions=frozenset(),
    )


def paths(*stored: StoredFile, builds: tuple[KnownBuild, ...] = ()) -> list[str]:
    return [stray.path for stray in find_strays(stored, REFERENCES, builds, LIMIT)]


@pytest.mark.parametrize(
    "path",
    [
        "data/stray.lance",
        "data/.tmpAb1Cd2",
        "_versions/5.manifest#1",
        "_deletions/0-4-1184.arrow",
        "_transactions/3-ab.txn",
        f"_indices/{STRAY}/page_data.lance",
        f"_indices/{STRAY}/staging/part_0.lance",
        "_lancewright/deltas/ab/runs/0.arrow",
        "_lancewright/builds/gone/segments/x.json",
    ],
)
def test_an_old_file_that_nobody_uses_goes_and_a_young_one_stays(path: str) -> None:
    assert paths(file(path)) == [path]
    assert paths(file(path, modified=YOUNG)) == []
    assert paths(file(path, modified=LIMIT)) == [path]


@pytest.mark.parametrize(
    "path",
    [
        "data/used.lance",
        f"_indices/{USED}/page_data.lance",
        f"_indices/{USED}/what_no_manifest_names.lance",
        "_versions/5.manifest",
        "_versions/latest_version_hint.json",
        "_refs/tags/kept.json",
        "data/sub/folder.lance",
        "data/blobs/1.blob",
        "_indices/notes.lance",
        "_lancewright/notes.json",
        "_mem_wal/0/1.lance",
        f"tree/side/_indices/{STRAY}/page_data.lance",
        "tree/side/data/stray.lance",
        "notes.txt",
    ],
)
def test_what_is_used_or_not_in_a_known_place_stays_however_old(path: str) -> None:
    assert paths(file(path, modified=0.0)) == []


def test_a_segment_goes_as_a_whole_when_its_youngest_file_is_old() -> None:
    first, second = f"_indices/{STRAY}/a.lance", f"_indices/{STRAY}/b.lance"

    assert paths(file(first), file(second)) == [first, second]
    assert paths(file(first), file(second, modified=YOUNG)) == []


@pytest.mark.parametrize("state", ["running", "resumable"])
def test_a_build_that_is_not_over_keeps_its_journal_and_the_segments_it_names(state: State) -> None:
    segment, note = f"_indices/{STRAY}/a.lance", "_lancewright/builds/one/rounds/1.json"
    known = build(state, started=OLD + 1, segments=(STRAY,))

    assert paths(file(segment), file(note), builds=(known,)) == []


def test_a_build_that_is_over_keeps_nothing() -> None:
    segment, note = f"_indices/{STRAY}/a.lance", "_lancewright/builds/one/lease.json"

    assert paths(file(segment), file(note, YOUNG), builds=(build("over", segments=(STRAY,)),)) == [
        segment,
        note,
    ]


def test_while_a_build_runs_nothing_it_may_have_written_goes() -> None:
    segment, scratch = f"_indices/{STRAY}/a.lance", "_lancewright/deltas/ab/0.arrow"

    assert paths(file(segment), file(scratch), builds=(build("running", started=OLD),)) == []
    assert paths(file(segment), file(scratch), builds=(build("running", started=OLD + 1),)) == [
        segment,
        scratch,
    ]
    assert paths(file(segment), file(scratch), builds=(build("resumable", started=OLD),)) == [
        segment,
        scratch,
    ]


def test_detached_versions_are_noticed_on_branches_too() -> None:
    assert has_detached_versions([file("_versions/d9223372036854775809.manifest")])
    assert has_detached_versions([file("tree/side/_versions/d9223372036854775809.manifest")])
    assert not has_detached_versions([file("_versions/18446744073709551607.manifest")])
