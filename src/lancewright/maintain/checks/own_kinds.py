"""Asks a segment of a kind that is not Lance's for the keys its rows have, and holds the rows it names against the rows.

The segment is asked by itself, below the planner: an index that is passed over in queries is looked at as well.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap, FrozenBitMap

from lancewright.errors import LancewrightError
from lancewright.kinds.contract import Answer, Atom, Nulls, Operator, Spec
from lancewright.kinds.plugins import Unusable
from lancewright.kinds.registry import require_plugin
from lancewright.kinds.segment.calling import calling
from lancewright.kinds.segment.judging import judge_kind_segment, keys_of
from lancewright.kinds.segment.opened import OpenSegment
from lancewright.kinds.segment.store import BlockCache
from lancewright.maintain.checks import questions
from lancewright.maintain.checks.comparing import Comparison, Named
from lancewright.maintain.checks.findings import Checked, SegmentFailedError, blaming_segment, damaged
from lancewright.maintain.checks.questions import Question
from lancewright.maintain.checks.sampling import draw_sample
from lancewright.model.computed import keys_of_segment
from lancewright.model.predicate import IsNull, to_lance_sql
from lancewright.model.segment_details import details_from_bytes
from lancewright.table.live_rows import ListedRows
from lancewright.table.segment_place import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from lancewright.kinds.contract import IndexKind, Key, Probe, RowNumbers
    from lancewright.kinds.segment.judging import KindSegment
    from lancewright.maintain.checks.subject import Subject

    Addresses = NDArray[np.uint64]

_THOROUGH_SAMPLES = 1024
_CACHE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """A question and how the segment is asked it: over these keys; without a probe, whether the first is NULL."""

    question: Question
    keys: tuple[int, ...]
    probe: Probe | None


def check_own(subject: Subject) -> Checked:
    """Look at the whole segment; every byte it hands out is checked against its checksums."""
    uuid = subject.segment.uuid
    try:
        kind = require_plugin(subject.index.kind)
    except LancewrightError as error:
        return Checked(notes=(error.problem,))
    live = FrozenBitMap(subject.snapshot.fragments_by_id)
    judged = judge_kind_segment(subject.snapshot, kind, subject.segment, live)
    if isinstance(judged, Unusable):
        return Checked(notes=(judged.problem,))
    try:
        with blaming_segment(subject.table, f"read segment {uuid} of"):
            asked = _Asked(subject, kind, judged)
            if subject.rules.thorough:
                asked.opened.check_files()
        return asked.compare()
    except SegmentFailedError as error:
        return Checked(findings=(damaged(uuid, error.problem),))


class _Asked:
    """One open segment, and what it is asked."""

    def __init__(self, subject: Subject, kind: IndexKind, judged: KindSegment) -> None:
        self._subject = subject
        self._kind = kind
        self._judged = judged
        self._fragments = [one for one in subject.fragments if one.id in judged.covered]
        details = details_from_bytes(subject.segment.details)
        self._details = details
        self._spec = Spec(
            name=subject.index.name,
            kind=kind.name,
            keys=keys_of(subject.snapshot, subject.segment, details),
            parameters=dict(json.loads(details.parameters)),
            format=details.format,
        )
        # What another task or query of this process has read is no witness of what lies on storage.
        place = place_of(subject.table, subject.segment)
        self.opened = OpenSegment(kind, self._spec, details, place, BlockCache(_CACHE_BYTES))
        self._rows = ListedRows(subject.table, subject.snapshot, [one.id for one in self._fragments])
        with calling(kind, "input"):
            self._strips = kind.input(self._spec).nulls is Nulls.STRIP

    def compare(self) -> Checked:
        """Ask for the keys of some rows, and for NULLs."""
        subject = self._subject
        asked = list(self._choose()) if self._fragments else []
        comparison = Comparison(
            probe=subject.probe,
            segment=subject.segment.uuid,
            fragments=[one.id for one in self._fragments],
            rows=sum(one.rows for one in self._fragments),
            blame=lambda _stale, _sql: (subject.segment.uuid,),
        )
        done, findings = comparison.run(
            [one.question for one in asked], lambda number: self._ask_blaming(asked[number])
        )
        return Checked(questions=done, findings=tuple(findings))

    def _ask_blaming(self, asked: _Asking) -> Named:
        with self._blaming():
            return self._ask(asked)

    def _blaming(self) -> AbstractContextManager[None]:
        return blaming_segment(self._subject.table, f"ask segment {self._subject.segment.uuid} of")

    def _ask(self, asked: _Asking) -> Named:
        if asked.probe is None:
            nulls = self._locate(self.opened.nulls(asked.keys[0]))
            return Named(rows=nulls, exact=nulls)
        if self._is_skipped(asked.probe, asked.keys):
            nothing = np.zeros(0, dtype=np.uint64)
            return Named(rows=nothing, exact=nothing)
        found = self.opened.lookup(asked.probe, asked.keys)
        if asked.probe.answer is not Answer.EXACT:
            rows = self._locate(found)
            return Named(rows=rows, exact=rows[:0])
        to_check = self.opened.masks.to_check(asked.keys, stripped=self._strips)
        return Named(rows=self._locate(found), exact=self._locate(BitMap(found - to_check)))

    def _is_skipped(self, probe: Probe, keys: Sequence[int]) -> bool:
        """As queries pass over a segment by its summary alone."""
        details = self._details
        others = [key for place, key in enumerate(details.keys) if place not in keys]
        if details.unkeyed or (self._strips and any(key.nulls for key in others)):
            return False
        with calling(self._kind, "skip"):
            return self._kind.skip(self._spec, probe, details.summary)

    def _locate(self, numbers: RowNumbers) -> Addresses:
        """Where live rows are now, of the fragments that the segment answers for."""
        if self.opened.stable_row_ids:
            return self._rows.find(self.opened.stable_ids(numbers))
        places = np.frombuffer(numbers.to_array(), dtype=np.uint32)
        return self._rows.follow(self.opened.row_map.addresses(places))

    def _choose(self) -> Iterator[_Asking]:
        subject = self._subject
        columns = keys_of_segment(subject.segment, self._details, subject.snapshot.columns_by_field_id)
        count = max(subject.rules.samples, _THOROUGH_SAMPLES if subject.rules.thorough else 0)
        sample = draw_sample(subject.table, columns, self._fragments, count, subject.rules.seed)
        rows: dict[str, tuple[_Asking, list[int]]] = {}
        for number, address in enumerate(sample.addresses.tolist()):
            asking = self._ask_for([key[number] for key in sample.keys])
            if asking is not None:
                rows.setdefault(asking.question.sql, (asking, []))[1].append(address)
        for asking, addresses in rows.values():
            question = replace(asking.question, rows=tuple(addresses))
            yield replace(asking, question=question)
        for place, key in enumerate(self._spec.keys):
            sql = f"({key.name}) IS NULL" if key.expression else to_lance_sql(IsNull(column=key.name))
            yield _Asking(question=Question(sql=sql, overlaps=True), keys=(place,), probe=None)

    def _ask_for(self, values: Sequence[pa.Scalar]) -> _Asking | None:
        """The condition that all keys of a row have the values they have, as far as the kind answers it."""
        group = [
            one
            for place, (key, value) in enumerate(zip(self._spec.keys, values, strict=True))
            if (one := _equals(place, key, value)) is not None
        ]
        shapes = [
            one
            for place, (key, value) in enumerate(zip(self._spec.keys, values, strict=True))
            if (one := _intersects(place, key, value)) is not None
        ]
        for atoms in (group, shapes):
            if not atoms:
                continue
            with self._blaming(), calling(self._kind, "plan"):
                probe = self._kind.plan(self._spec, [atom for atom, _ in atoms])
            if probe is not None:
                chosen = [atoms[place] for place in sorted(probe.consumed)]
                keys = tuple(sorted({key for atom, _ in chosen for key in atom.keys}))
                # Of whole keys that are equal no two are alike; others may be.
                overlaps = atoms is shapes or len(keys) < len(self._spec.keys)
                sql = " AND ".join(sql for _, sql in chosen)
                return _Asking(question=Question(sql=sql, overlaps=overlaps), keys=keys, probe=probe)
        return None


def _equals(place: int, key: Key, value: pa.Scalar) -> tuple[Atom, str] | None:
    literal = questions.literal_of(value)
    text = None if literal is None else questions.write_literal(literal)
    if literal is None or text is None:
        return None
    name = f"({key.name})" if key.expression else key.name
    atom = Atom(operator=Operator.EQUAL, keys=(place,), values=(literal.scalar,))
    return atom, f"{name} = {text}"


def _intersects(place: int, key: Key, value: pa.Scalar) -> tuple[Atom, str] | None:
    """A geometry meets itself; asked of kinds that answer no equality."""
    if not value.is_valid or not pa.types.is_binary(key.type) or key.expression:
        return None
    atom = Atom(operator=Operator.FUNCTION, keys=(place,), values=(value,), function="st_intersects")
    return atom, questions.ask_shapes(key.name, [value])[0].sql
