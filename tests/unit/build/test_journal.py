"""What a build remembers on the table's own storage: it comes back as it was, or counts as absent."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from lancewright.build.journal import (
    BUILDS_FOLDER,
    CLAIM_SETTLE_S,
    Journal,
    attach_proofs,
    find_abandoned,
    find_journals,
    start_journal,
)
from lancewright.build.journal_records import FORMAT, segment_from_json, segment_to_json
from lancewright.build.spec import Written
from lancewright.model.index import Segment, SegmentFile
from lancewright.table.conflict import FragmentProof
from lancewright.table.location import table_ref
from lancewright.table.side_files import SideFiles
from support.values import segment

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

VERSION = 4
NUMBERS = st.integers(0, 2**31 - 1)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=-7, minutes=30))])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def _segments(draw: st.DrawFn) -> Segment:
    return Segment(
        uuid=str(draw(st.uuids())),
        name=draw(NAMES),
        field_ids=tuple(draw(st.lists(NUMBERS, max_size=3))),
        dataset_version=draw(st.integers(0, 2**63)),
        fragments=FrozenBitMap(draw(st.sets(st.integers(0, 2**32 - 1), max_size=9))),
        index_version=draw(NUMBERS),
        type_url=draw(st.none() | NAMES),
        details=draw(st.binary(max_size=50)),
        created_at=draw(st.none() | ZONES.flatmap(lambda zone: st.datetimes(timezones=st.just(zone)))),
        base_id=draw(st.none() | NUMBERS),
        files=draw(
            st.none()
            | st.lists(st.builds(SegmentFile, path=NAMES, size_bytes=st.integers(0, 2**62)), max_size=3).map(
                tuple
            )
        ),
        covering_field_ids=tuple(draw(st.lists(NUMBERS, max_size=2))),
    )


@pytest.fixture
def files(tmp_path: Path) -> SideFiles:
    return SideFiles(table_ref(str(tmp_path / "t")))


@pytest.fixture
def journal(files: SideFiles) -> Journal:
    return start_journal(files, "f" * 64)


def _written(covered: Iterable[int], *, index: str = "ix", version: int = VERSION, **changes: Any) -> Written:
    entry = segment(
        covered, **{"name": index, "files": (SegmentFile(path="page.lance", size_bytes=3),), **changes}
    )
    return Written(task_id="build-1", index=index, version=version, segment=entry, rows=30, seconds=1.5)


def _proofs(fragments: Iterable[int]) -> list[FragmentProof]:
    return [
        FragmentProof(fragment_id=id_, column_stamp=f"{id_}.lance", deletion_stamp=None) for id_ in fragments
    ]


def _put_on_storage(files: SideFiles, written: Written) -> None:
    for file in written.segment.files or ():
        files.write(f"_indices/{written.segment.uuid}/{file.path}", b"abc")


# --- records ---


@given(_segments())
def test_a_segment_comes_back_from_json_exactly_as_it_was(entry: Segment) -> None:
    assert segment_from_json(json.loads(json.dumps(segment_to_json(entry)))) == entry


def test_a_segment_that_does_not_say_what_it_covers_claims_nothing_when_it_comes_back() -> None:
    back = segment_from_json(segment_to_json(segment(None)))

    assert set(back.covered) == set()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_segments(), NAMES, NUMBERS, st.floats(0, 1e6))
def test_a_finished_segment_comes_back_from_storage_exactly_as_it_was(
    files: SideFiles, entry: Segment, index: str, rows: int, seconds: float
) -> None:
    journal = Journal(files, f"{BUILDS_FOLDER}/one")
    written = Written(task_id="t", index=index, version=VERSION, segment=entry, rows=rows, seconds=seconds)

    journal.record_segment(written)

    assert journal.read_segment_record(f"{journal.folder}/segments/{entry.uuid}.json") == written
    assert entry.uuid in journal.list_segments()


def test_what_the_fragments_looked_like_comes_back_for_every_round_and_index(journal: Journal) -> None:
    odd = FragmentProof(fragment_id=7, column_stamp="a.lance|b.lance", deletion_stamp="3-9")
    journal.record_round(4, {"one": _proofs([0, 1]), "two": []})
    journal.record_round(12, {"one": [odd]})

    rounds = journal.read_rounds()

    assert rounds == {4: {"one": dict(enumerate(_proofs([0, 1]))), "two": {}}, 12: {"one": {7: odd}}}


def test_a_model_comes_back_byte_for_byte_and_one_never_finished_is_absent(journal: Journal) -> None:
    path = journal.model_path("abc")
    assert journal.read_model(path) is None

    journal.write_model(path, bytes(range(256)))

    assert journal.read_model(path) == bytes(range(256))
    assert journal.model_path("abc", given=True) != path


# --- finished work ---


def test_a_finished_segment_comes_back_with_the_proofs_of_its_round(
    files: SideFiles, journal: Journal
) -> None:
    written = _written([2, 3])
    _put_on_storage(files, written)
    journal.record_round(VERSION, {"ix": _proofs(range(5))})
    journal.record_segment(written)

    (built,) = journal.read_built()["ix"]

    assert (built.segment, built.rows, built.trimmed) == (written.segment, 30, False)
    assert built.proofs == tuple(_proofs([2, 3]))


def test_merged_segments_come_before_those_they_were_made_of(files: SideFiles, journal: Journal) -> None:
    journal.record_round(VERSION, {"ix": _proofs(range(6))})
    for covered in ([0, 1], [0, 1, 2, 3, 4, 5], [2, 3, 4]):
        written = _written(covered)
        _put_on_storage(files, written)
        journal.record_segment(written)

    built = journal.read_built()["ix"]

    assert [len(entry.proofs) for entry in built] == [6, 3, 2]


def test_segments_of_several_indexes_are_kept_apart(files: SideFiles, journal: Journal) -> None:
    journal.record_round(VERSION, {"a": _proofs([0]), "b": _proofs([0])})
    for index in ("a", "b"):
        written = _written([0], index=index)
        _put_on_storage(files, written)
        journal.record_segment(written)

    assert {name: len(entries) for name, entries in journal.read_built().items()} == {"a": 1, "b": 1}


def test_a_segment_whose_files_are_gone_is_not_taken_up(files: SideFiles, journal: Journal) -> None:
    journal.record_round(VERSION, {"ix": _proofs([0])})
    journal.record_segment(_written([0]))

    assert journal.read_built() == {}


def test_a_segment_that_does_not_list_its_files_is_not_taken_up(journal: Journal) -> None:
    journal.record_round(VERSION, {"ix": _proofs([0])})
    journal.record_segment(_written([0], files=None))

    assert journal.read_built() == {}


@pytest.mark.parametrize(
    "rounds",
    [{}, {VERSION + 1: {"ix": [0, 1]}}, {VERSION: {"other": [0, 1]}}, {VERSION: {"ix": [0]}}],
    ids=["no round", "another version", "another index", "a fragment missing"],
)
def test_a_segment_without_proof_of_what_it_read_is_not_taken_up(
    files: SideFiles, journal: Journal, rounds: dict[int, dict[str, list[int]]]
) -> None:
    written = _written([0, 1])
    _put_on_storage(files, written)
    journal.record_segment(written)
    for version, proofs in rounds.items():
        journal.record_round(version, {name: _proofs(ids) for name, ids in proofs.items()})

    assert journal.read_built() == {}


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_proofs_are_attached_when_there_is_one_for_every_fragment(
    covered: set[int], proven: set[int]
) -> None:
    built = attach_proofs(_written(covered), {proof.fragment_id: proof for proof in _proofs(proven)})

    assert (built is not None) == (covered <= proven)
    if built is not None:
        assert [proof.fragment_id for proof in built.proofs] == sorted(covered)


# --- damage ---


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"null", b"[]", b"7", b"{}", b'{"format":99}'])
@pytest.mark.parametrize(
    "path", ["lease.json", f"rounds/{VERSION}.json", "segments/x.json", "published/4.json"]
)
def test_a_file_that_cannot_be_read_counts_as_absent(
    files: SideFiles, journal: Journal, path: str, content: bytes
) -> None:
    written = _written([0])
    _put_on_storage(files, written)
    journal.record_segment(written)
    journal.record_round(VERSION + 1, {"ix": _proofs([0])})

    files.write(f"{journal.folder}/{path}", content)

    assert list(journal.read_rounds()) == [VERSION + 1]
    assert journal.read_built() == {}
    assert journal.read_published() == frozenset()
    assert (journal.read_lease() is None) == (path == "lease.json")
    assert journal.is_abandoned() == (path == "lease.json")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_segments(), st.data())
def test_a_record_with_anything_in_any_place_is_read_or_absent_but_never_an_error(
    files: SideFiles, entry: Segment, data: st.DataObject
) -> None:
    journal = Journal(files, f"{BUILDS_FOLDER}/damaged")
    content: dict[str, Any] = {
        "format": FORMAT, "task_id": "t", "index": "ix", "version": 1, "rows": 1, "seconds": 0.1,
        "segment": segment_to_json(entry),
    }  # fmt: skip
    spoilt = content["segment"] if data.draw(st.booleans()) else content
    key = data.draw(st.sampled_from(sorted(spoilt)))
    if data.draw(st.booleans()):
        del spoilt[key]
    else:
        spoilt[key] = data.draw(JSON)
    path = f"{journal.folder}/segments/x.json"
    files.write(path, json.dumps(content).encode())

    read = journal.read_segment_record(path)

    assert read is None or isinstance(read, Written)


# What is valid JSON and still no record: a file format that grew, or a hand that edited it.
_NO_ROUNDS = [None, 7, [], {"ix": None}, {"ix": [[0]]}, {"ix": [[[], "a", None]]}]
_NO_RECORDS: list[dict[str, Any]] = [
    {"index": []},
    {"version": {}},
    {"segment": {"fragments": [-1]}},
    {"segment": {"fragments": [2**40]}},
]


@pytest.mark.parametrize("proofs", _NO_ROUNDS)
def test_a_round_that_makes_no_sense_counts_as_absent(
    files: SideFiles, journal: Journal, proofs: object
) -> None:
    content = {"format": FORMAT, "proofs": proofs}
    files.write(f"{journal.folder}/rounds/1.json", json.dumps(content).encode())

    assert journal.read_rounds() == {}


def test_a_file_of_somebody_else_among_the_rounds_is_left_alone(files: SideFiles, journal: Journal) -> None:
    files.write(f"{journal.folder}/rounds/notes.json", json.dumps({"format": FORMAT, "proofs": {}}).encode())

    assert journal.read_rounds() == {}


@pytest.mark.parametrize("spoilt", _NO_RECORDS)
def test_a_record_that_makes_no_sense_counts_as_absent(
    files: SideFiles, journal: Journal, spoilt: dict[str, Any]
) -> None:
    written = _written([0])
    _put_on_storage(files, written)
    journal.record_round(VERSION, {"ix": _proofs([0])})
    journal.record_segment(written)
    path = f"{journal.folder}/segments/{written.segment.uuid}.json"
    content = json.loads(files.read(path) or b"")
    content |= {**spoilt, "segment": content["segment"] | spoilt.get("segment", {})}

    files.write(path, json.dumps(content).encode())

    assert journal.read_built() == {}


def test_a_lease_that_makes_no_sense_counts_as_absent(files: SideFiles, journal: Journal) -> None:
    path = f"{journal.folder}/lease.json"
    content = json.loads(files.read(path) or b"")

    files.write(path, json.dumps(content | {"machine": "elsewhere", "seen_at": []}).encode())

    assert journal.is_abandoned()


def test_a_publication_that_cannot_be_read_keeps_every_segment_from_being_deleted(
    files: SideFiles, journal: Journal
) -> None:
    written = _written([0])
    _put_on_storage(files, written)
    journal.record_segment(written)

    files.write(f"{journal.folder}/published/{VERSION}.json", b"damaged")
    journal.remove()

    assert files.holds_segment(written.segment)


# --- who works on it ---


def test_a_new_journal_is_being_worked_on_and_says_so(files: SideFiles, journal: Journal) -> None:
    assert journal.holds_lease()
    assert not journal.is_abandoned()
    assert find_abandoned(files, "f" * 64) == ()
    assert [found.folder for found in find_journals(files)] == [journal.folder]


def test_a_released_journal_is_found_by_the_next_equal_call_only(files: SideFiles, journal: Journal) -> None:
    journal.release_lease()
    journal.record_segment(_written([0]))

    assert [found.folder for found in find_abandoned(files, "f" * 64)] == [journal.folder]
    assert find_abandoned(files, "e" * 64) == ()
    assert find_journals(files, "e" * 64) == ()


def test_of_several_abandoned_journals_the_one_with_most_work_comes_first(files: SideFiles) -> None:
    finished = {}
    for count in (1, 3, 2):
        journal = start_journal(files, "f" * 64)
        for _ in range(count):
            journal.record_segment(_written([0]))
        journal.release_lease()
        finished[journal.folder] = count

    assert [finished[found.folder] for found in find_abandoned(files, "f" * 64)] == [3, 2, 1]


def test_of_two_who_claim_the_same_journal_the_later_one_has_it(files: SideFiles, journal: Journal) -> None:
    journal.release_lease()
    one, other = (Journal(files, journal.folder) for _ in range(2))
    waited: list[float] = []

    def meanwhile(seconds: float) -> None:
        waited.append(seconds)
        other.renew_lease()

    assert not one.claim(sleep=meanwhile)
    assert other.holds_lease()
    assert not journal.holds_lease()
    assert waited == [CLAIM_SETTLE_S]


def test_who_lost_the_lease_does_not_take_it_back_by_keeping_it(files: SideFiles, journal: Journal) -> None:
    other = Journal(files, journal.folder)
    assert other.claim(sleep=lambda _seconds: None)

    journal.keep_lease()

    assert other.holds_lease()
    assert not journal.holds_lease()


# --- cleaning up ---


def test_removing_a_journal_takes_its_files_and_its_unpublished_segments_and_nothing_else(
    files: SideFiles, journal: Journal, tmp_path: Path
) -> None:
    published, scratch, foreign = (_written([id_]) for id_ in range(3))
    for written in (published, scratch, foreign):
        _put_on_storage(files, written)
    for written in (published, scratch):
        journal.record_segment(written)
    journal.record_publication(VERSION, [published.segment.uuid])
    neighbour = start_journal(files, "f" * 64)

    removed = journal.remove()

    assert removed == 5  # one file of the segment, two records, the publication and the lease
    assert not (tmp_path / "t" / journal.folder).exists()
    assert not files.holds_segment(scratch.segment)
    assert files.holds_segment(published.segment)
    assert files.holds_segment(foreign.segment)
    assert neighbour.holds_lease()


def test_a_refused_publication_is_forgotten(journal: Journal) -> None:
    journal.record_publication(1, ["a"])
    journal.record_publication(2, ["b", "c"])

    journal.forget_publication(1)

    assert journal.read_published() == {"b", "c"}


def test_the_folder_of_a_build_does_not_tell_the_whole_fingerprint_but_its_own_name(files: SideFiles) -> None:
    one, other = (start_journal(files, "f" * 64) for _ in range(2))

    assert one.folder != other.folder
    assert one.build_id.startswith("f" * 24 + "-")
    assert one.folder == f"{BUILDS_FOLDER}/{one.build_id}"
    assert replace(_written([0]), rows=1) != _written([0])


def test_a_date_without_a_zone_stays_without_one() -> None:
    naive = datetime(2026, 1, 2, 3, 4, 5, 678)  # noqa: DTZ001 - that is the point

    assert segment_from_json(segment_to_json(segment({0}, created_at=naive))).created_at == naive
