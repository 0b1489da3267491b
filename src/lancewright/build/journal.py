"""Remembers, on the table's own storage, which segments a build has finished, so that a dead build is resumed.

One folder per build: ``lease.json`` says who runs it, ``rounds/`` what the fragments looked like when they were read,
``segments/`` one file per finished task (written by the worker itself, so a dead driver loses nothing), ``sorts/`` and
``ranges/`` the same for the ranges of a sorted segment (``sort_journal``), ``models/`` trained models, ``published/`` what a commit may have made visible. Nothing is ever unpickled. A file that cannot be
read counts as absent.
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from lancewright.build import journal_records as records
from lancewright.build.lease import take_lease
from lancewright.table.conflict import BuiltSegment
from lancewright.table.side_files import SIDE_FOLDER, SideFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from lancewright.build.lease import Lease
    from lancewright.build.spec import Written
    from lancewright.table.conflict import FragmentProof

BUILDS_FOLDER = f"{SIDE_FOLDER}/builds"
# Two processes may find the same dead build at the same moment: the later lease wins, and both look again after this.
CLAIM_SETTLE_S = 0.5
_FINGERPRINT_CHARACTERS = 24
_GIVEN = ".given"


class Journal:
    """The folder of one build."""

    def __init__(self, files: SideFiles, folder: str) -> None:
        """Point at a folder; makes no request."""
        self._files = files
        self._owner = uuid.uuid4().hex
        self.folder = folder

    @property
    def build_id(self) -> str:
        """The last part of the folder's name."""
        return self.folder.rsplit("/", maxsplit=1)[-1]

    def renew_lease(self) -> None:
        """Say that this object's holder works on the build."""
        content = records.lease_to_json(take_lease(self._owner))
        self._files.write(f"{self.folder}/lease.json", records.to_bytes(content))

    def read_lease(self) -> Lease | None:
        """Who last worked on the build."""
        return records.from_bytes(self._files.read(f"{self.folder}/lease.json"), records.lease_from_json)

    def holds_lease(self) -> bool:
        """True unless another process took this one for dead and went on with the build."""
        lease = self.read_lease()
        return lease is not None and lease.owner == self._owner

    def keep_lease(self) -> None:
        """Renew the lease, unless another process has it by now."""
        if self.holds_lease():
            self.renew_lease()

    def is_abandoned(self) -> bool:
        """True when nobody works on the build."""
        lease = self.read_lease()
        return lease is None or not lease.is_live(time.time())

    def claim(self, sleep: Callable[[float], None] = time.sleep) -> bool:
        """Take an abandoned build over; False when another process did so at the same moment."""
        self.renew_lease()
        sleep(CLAIM_SETTLE_S)
        return self.holds_lease()

    def release_lease(self) -> None:
        """Say that nobody works on the build any more, so that the next equal call may resume it at once."""
        self._files.delete([f"{self.folder}/lease.json"])

    def record_round(self, version: int, proofs: Mapping[str, Iterable[FragmentProof]]) -> None:
        """Keep what the fragments of each index look like at this version, before any task reads them."""
        content = records.to_bytes(records.proofs_to_json(proofs))
        self._files.write(f"{self.folder}/rounds/{version}.json", content)

    def read_rounds(self) -> dict[int, records.Proofs]:
        """Every recorded version: index name, then fragment id, to its proof."""
        rounds = {}
        for path in self._files.list(f"{self.folder}/rounds"):
            proofs = records.from_bytes(self._files.read(path), records.proofs_from_json)
            if proofs is not None and Path(path).stem.isdecimal():
                rounds[int(Path(path).stem)] = proofs
        return rounds

    def record_segment(self, written: Written) -> None:
        """Keep a finished segment; called by the worker that wrote it."""
        content = records.to_bytes(records.written_to_json(written))
        self._files.write(f"{self.folder}/segments/{written.segment.uuid}.json", content)

    def list_segment_records(self) -> tuple[str, ...]:
        """Paths of the finished segments' records, to be read one by one."""
        return self._files.list(f"{self.folder}/segments")

    def list_segments(self) -> tuple[str, ...]:
        """The uuids of the finished segments, also of those whose record is damaged."""
        return tuple(Path(path).stem for path in self.list_segment_records())

    def read_segment_record(self, path: str) -> Written | None:
        """One finished segment, or None when its record is damaged."""
        return records.from_bytes(self._files.read(path), records.written_from_json)

    def read_built(self, without: Collection[str] = ()) -> dict[str, tuple[BuiltSegment, ...]]:
        """Finished segments that are all there, with their proofs, by index; ``without`` leaves some uuids out.

        Larger ones come first, so that a merged segment wins over those it was made of.
        """
        rounds = self.read_rounds()
        found: dict[str, list[BuiltSegment]] = {}
        for record in map(self.read_segment_record, self.list_segment_records()):
            if record is None or record.segment.uuid in without:
                continue
            built = attach_proofs(record, rounds.get(record.version, {}).get(record.index, {}))
            if built is not None and self._files.holds_segment(record.segment):
                found.setdefault(record.index, []).append(built)
        return {
            name: tuple(sorted(entries, key=lambda built: -len(built.proofs)))
            for name, entries in found.items()
        }

    def record_publication(self, version: int, segments: Iterable[str]) -> None:
        """Note, before a commit on top of ``version``, what it makes visible: nobody may delete these files."""
        content = records.to_bytes({"segments": list(segments)})
        self._files.write(f"{self.folder}/published/{version}.json", content)

    def forget_publication(self, version: int) -> None:
        """Note that this commit was refused."""
        self._files.delete([f"{self.folder}/published/{version}.json"])

    def read_published(self) -> frozenset[str]:
        """Every segment that some version of the table may list."""
        return frozenset(uuid for note in self._read_publications() for uuid in note or ())

    def write_model(self, path: str, content: bytes) -> None:
        """Keep a model where every worker finds it."""
        self._files.write(path, content)

    def read_model(self, path: str) -> bytes | None:
        """Read a model, or None when it was never finished."""
        return self._files.read(path)

    def model_path(self, fingerprint: str, *, given: bool = False) -> str:
        """Where the model of the index with this fingerprint is kept."""
        name = fingerprint[:_FINGERPRINT_CHARACTERS] + (_GIVEN if given else "")
        return f"{self.folder}/models/{name}.arrow"

    def has_finished_work(self) -> bool:
        """True when a later attempt would find a segment, a range of one or a trained model here."""
        models = self._files.list(f"{self.folder}/models")
        records_there = self.list_segment_records() or self._files.list(f"{self.folder}/ranges")
        return bool(records_there) or any(_GIVEN not in path for path in models)

    def list_sorts(self) -> tuple[str, ...]:
        """The uuids of the segments whose ranges were being sorted, finished or not (``sort_journal``)."""
        return tuple(Path(path).stem for path in self._files.list(f"{self.folder}/sorts"))

    def remove(self) -> int:
        """Delete the folder and every finished segment that was never published; return the number of files."""
        notes = self._read_publications()
        # A note that cannot be read may name any of them.
        scratch = (
            set() if None in notes else {*self.list_segments(), *self.list_sorts()} - self.read_published()
        )
        deleted = sum(self._files.delete_segment(segment) for segment in sorted(scratch))
        return deleted + self._files.delete_folder(self.folder)

    def _read_publications(self) -> list[tuple[str, ...] | None]:
        paths = self._files.list(f"{self.folder}/published")
        return [records.from_bytes(self._files.read(path), records.segments_from_json) for path in paths]


def attach_proofs(written: Written, proofs: Mapping[int, FragmentProof]) -> BuiltSegment | None:
    """Join a segment with the proofs of its fragments, or None when one is missing."""
    covered = written.segment.covered
    if any(fragment not in proofs for fragment in covered):
        return None
    return BuiltSegment(
        segment=written.segment, rows=written.rows, proofs=tuple(proofs[fragment] for fragment in covered)
    )


def start_journal(files: SideFiles, fingerprint: str) -> Journal:
    """Make a new journal; its first write also proves that the location may be written."""
    journal = Journal(files, f"{_prefix(fingerprint)}{uuid.uuid4().hex[:12]}")
    journal.renew_lease()
    return journal


def find_abandoned(files: SideFiles, fingerprint: str) -> tuple[Journal, ...]:
    """Journals of equal calls whose owner is gone, the one with most finished segments first."""
    found = [journal for journal in find_journals(files, fingerprint) if journal.is_abandoned()]
    return tuple(sorted(found, key=lambda journal: -len(journal.list_segment_records())))


def find_journals(files: SideFiles, fingerprint: str | None = None) -> tuple[Journal, ...]:
    """Journals on storage, of one fingerprint or all."""
    prefix = BUILDS_FOLDER + "/" if fingerprint is None else _prefix(fingerprint)
    folders = {"/".join(path.split("/")[:3]) for path in files.list(BUILDS_FOLDER)}
    return tuple(Journal(files, folder) for folder in sorted(folders) if folder.startswith(prefix))


def _prefix(fingerprint: str) -> str:
    return f"{BUILDS_FOLDER}/{fingerprint[:_FINGERPRINT_CHARACTERS]}-"
