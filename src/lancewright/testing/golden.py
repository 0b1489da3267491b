"""Golden segments: small segments that an earlier release wrote, kept beside the tests of a kind, so that they stay readable.

One file holds one segment with its files, its manifest entry's details and the rows it was built over. It is a zip archive, written the
same way each time. Nothing here changes a golden file that is there.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.kinds.contract import Spec
from lancewright.model.segment_details import details_from_bytes
from lancewright.testing.fake import MemoryPlace
from lancewright.testing.harness import Case
from lancewright.testing.laboratory import Laboratory

if TYPE_CHECKING:
    from lancewright.model.segment_details import SegmentDetails
    from lancewright.testing.harness import KindHarness
    from lancewright.testing.laboratory import Built

SUFFIX = ".golden"
_ROWS = 60
_DELETED = 7  # every so manieth row
_FILES = "files/"
# The earliest that a zip archive can say: the time of writing does not belong into a file that never changes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Golden:
    """One golden segment as it was read; ``deleted`` rows were no part of the table any more when it was built."""

    name: str
    case: Case
    columns: tuple[pa.Array, ...]
    deleted: frozenset[int]
    details: SegmentDetails
    place: MemoryPlace

    def reopened(self, laboratory: Laboratory) -> Built:
        """The segment, to be asked by the code of today."""
        spec = Spec(
            name="tried",
            kind=self.details.kind,
            keys=self.case.keys,
            parameters=json.loads(self.details.parameters),
            format=self.details.format,
        )
        live = frozenset(range(len(self.columns[0]))) - self.deleted
        return laboratory.reopen(spec, self.columns, live, self.details, self.place)


def write_golden(harness: KindHarness) -> tuple[Path, ...]:
    """Write into the harness's folder the golden segments that it lacks, of the format the kind writes; return what was written."""
    folder = _folder(harness)
    folder.mkdir(parents=True, exist_ok=True)
    laboratory = Laboratory(harness)
    written = []
    for number, case in enumerate(harness.cases):
        path = folder / f"{laboratory.kind.name}-{laboratory.kind.writes}-{number}{SUFFIX}"
        if not path.exists():
            path.write_bytes(_pack(laboratory, case))
            written.append(path)
    return tuple(written)


def list_golden(harness: KindHarness) -> tuple[Path, ...]:
    """The golden files of the harness's kind, in the order of their names; none without a folder."""
    if harness.golden is None:
        return ()
    return tuple(sorted(_folder(harness).glob(f"{harness.kind().name}-*{SUFFIX}")))


def read_golden(path: Path) -> Golden:
    """Read one golden segment."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    rows = pa.ipc.open_file(io.BytesIO(files["rows.arrow"])).read_all()
    place = MemoryPlace()
    place.files = {
        name.removeprefix(_FILES): content for name, content in files.items() if name.startswith(_FILES)
    }
    return Golden(
        name=path.name,
        case=Case(types=tuple(rows.schema.types)),
        columns=tuple(column.combine_chunks() for column in rows.columns),
        deleted=frozenset(json.loads(files["deleted.json"])),
        details=details_from_bytes(files["details"]),
        place=place,
    )


def _folder(harness: KindHarness) -> Path:
    if harness.golden is None:
        raise InvalidRequestError(
            "The harness names no folder for golden segments",
            "Pass KindHarness(golden=...), a folder beside the tests of the kind.",
        )
    return Path(harness.golden)


def _pack(laboratory: Laboratory, case: Case) -> bytes:
    deleted = list(range(0, _ROWS, _DELETED))
    built = laboratory.build(case, laboratory.rows(case, _ROWS), deleted=deleted)
    rows = io.BytesIO()
    table = pa.table(list(built.columns), [key.name for key in case.keys])
    with pa.ipc.new_file(rows, table.schema) as writer:
        writer.write_table(table)
    content = {
        "rows.arrow": rows.getvalue(),
        "deleted.json": json.dumps(deleted).encode(),
        "details": built.index.segments[0].details.to_bytes(),
        **{f"{_FILES}{name}": file for name, file in built.place.files.items()},
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in sorted(content.items()):
            entry = zipfile.ZipInfo(name, _NO_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file)
    return packed.getvalue()
