"""Remembers which key ranges of a sort are on storage, so that a sort that broke off goes on with the others.

Beside the other records of a build: ``sorts/<segment>.json`` says what was being sorted into which ranges, written
before the first task, and ``ranges/<segment>/<number>.json`` is written by the task that finished a range. Nothing is ever
unpickled. What cannot be read counts as absent.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from lancewright.build.journal_records import from_bytes, to_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancewright.table.side_files import SideFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class SortNote:
    """One sort: the segment it fills, and from what, which must be the same for it to be taken up again."""

    segment_uuid: str
    index: str
    version: int
    fragments: tuple[int, ...]
    ranges: int

    @property
    def source(self) -> tuple[str, int, tuple[int, ...]]:
        """What is sorted."""
        return self.index, self.version, self.fragments


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRange:
    """One range on storage: its file and its page entries, as an Arrow stream."""

    segment_uuid: str
    number: int
    part_id: int
    size_bytes: int
    rows: int
    pages: bytes
    spilled_runs: int = 0
    seconds: float = 0.0


class SortJournal:
    """The records of all sorts of one build."""

    def __init__(self, files: SideFiles, folder: str) -> None:
        """Point at the build's folder; makes no request."""
        self._files = files
        self._folder = folder

    def splitters_path(self, segment_uuid: str) -> str:
        """Where the splitters of a sort are kept."""
        return f"{self._folder}/splitters/{segment_uuid}.arrow"

    def start(self, note: SortNote, splitters: bytes) -> None:
        """Keep what a sort is about, before any task of it runs."""
        self._files.write(self.splitters_path(note.segment_uuid), splitters)
        self._files.write(f"{self._folder}/sorts/{note.segment_uuid}.json", to_bytes(_note_to_json(note)))

    def read_sorts(self) -> tuple[SortNote, ...]:
        """Every sort that was started and whose splitters are there."""
        kept = {PurePosixPath(path).stem for path in self._files.list(f"{self._folder}/splitters")}
        found = (
            from_bytes(self._files.read(path), _note_from_json)
            for path in self._files.list(f"{self._folder}/sorts")
        )
        return tuple(note for note in found if note is not None and note.segment_uuid in kept)

    def record_range(self, written: WrittenRange) -> None:
        """Keep a finished range; called by the task that wrote it."""
        path = f"{self._folder}/ranges/{written.segment_uuid}/{written.number}.json"
        self._files.write(path, to_bytes(_range_to_json(written)))

    def read_ranges(self, segment_uuid: str) -> tuple[WrittenRange, ...]:
        """The finished ranges of a sort whose files are still there, in order."""
        paths = self._files.list(f"{self._folder}/ranges/{segment_uuid}")
        present = {PurePosixPath(path).name for path in self._files.list(f"_indices/{segment_uuid}")}
        found = (from_bytes(self._files.read(path), _range_from_json) for path in paths)
        kept = [
            written
            for written in found
            if written is not None and f"part_{written.part_id}_page_data.lance" in present
        ]
        return tuple(sorted(kept, key=lambda written: written.number))

    def forget(self, segment_uuid: str) -> None:
        """Delete a sort's files and records."""
        self._files.delete_segment(segment_uuid)
        self._files.delete_folder(f"{self._folder}/ranges/{segment_uuid}")
        self._files.delete([f"{self._folder}/sorts/{segment_uuid}.json"])


def _note_to_json(note: SortNote) -> dict[str, Any]:
    return {
        "segment": note.segment_uuid,
        "index": note.index,
        "version": note.version,
        "fragments": list(note.fragments),
        "ranges": note.ranges,
    }


def _note_from_json(content: Mapping[str, Any]) -> SortNote:
    return SortNote(
        segment_uuid=str(content["segment"]),
        index=str(content["index"]),
        version=int(content["version"]),
        fragments=tuple(int(fragment) for fragment in content["fragments"]),
        ranges=int(content["ranges"]),
    )


def _range_to_json(written: WrittenRange) -> dict[str, Any]:
    return {
        "segment": written.segment_uuid,
        "number": written.number,
        "part": written.part_id,
        "size_bytes": written.size_bytes,
        "rows": written.rows,
        "pages": base64.b64encode(written.pages).decode(),
    }


def _range_from_json(content: Mapping[str, Any]) -> WrittenRange:
    return WrittenRange(
        segment_uuid=str(content["segment"]),
        number=int(content["number"]),
        part_id=int(content["part"]),
        size_bytes=int(content["size_bytes"]),
        rows=int(content["rows"]),
        pages=base64.b64decode(content["pages"], validate=True),
    )
