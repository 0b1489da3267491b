"""Segments that an earlier release wrote stay readable, and answer as they did."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lancewright.kinds.plugins import Trouble, judge_segment
from lancewright.testing.checks.asking import compare, offers_of
from lancewright.testing.checks.formats import expect_damage_is_noticed
from lancewright.testing.expecting import expect
from lancewright.testing.golden import list_golden, read_golden

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lancewright.model.predicate import Predicate
    from lancewright.testing.golden import Golden
    from lancewright.testing.laboratory import Built, Laboratory

_GROUPS = 40


def check_golden_segments_are_read_and_answer_as_ever(laboratory: Laboratory) -> None:
    """Every format that was ever released."""
    for golden, built in _reopened(laboratory):
        offered = sum(compare(built, laboratory.group(golden.case)) for _ in range(_GROUPS))
        expect(offered or not laboratory.harness.filters, f"{golden.name} is asked anything")


def check_a_golden_segment_that_is_damaged_gives_no_wrong_rows(laboratory: Laboratory) -> None:
    """Bits flipped and files cut short, in segments as they are out there."""
    for golden, built in _reopened(laboratory):
        group = next(
            (group for group in _groups(laboratory, golden) if any(offers_of(built, group))),
            None,
        )
        if group is not None:
            expect_damage_is_noticed(laboratory, built, next(offers_of(built, group)))


def check_a_golden_segment_of_a_newer_format_is_refused(laboratory: Laboratory) -> None:
    """As if a later release had written it."""
    for golden, _ in _reopened(laboratory):
        newer = replace(golden.details, format=max(laboratory.kind.reads) + 1)
        judged = judge_segment(laboratory.kind, newer)
        expect(
            judged is not None and judged.trouble is Trouble.FORMAT_TOO_NEW,
            f"{golden.name} is too new with another format",
        )


def check_a_golden_segment_of_the_format_written_is_kept(laboratory: Laboratory) -> None:
    """Without one, nobody notices when a later release of the kind cannot read what this one writes."""
    kept = {read_golden(path).details.format for path in list_golden(laboratory.harness)}
    writes = laboratory.kind.writes
    expect(
        writes in kept,
        f"a golden segment of format {writes} is kept: pass KindHarness(golden=folder), run write_golden(harness) once, "
        "and keep the files it writes with the tests",
    )


def _reopened(laboratory: Laboratory) -> Iterator[tuple[Golden, Built]]:
    for path in list_golden(laboratory.harness):
        golden = read_golden(path)
        judged = judge_segment(laboratory.kind, golden.details)
        expect(judged is None, f"{golden.name} is readable ({judged})")
        yield golden, golden.reopened(laboratory)


def _groups(laboratory: Laboratory, golden: Golden) -> Iterator[tuple[Predicate, ...]]:
    for _ in range(_GROUPS):
        yield laboratory.group(golden.case)
