"""A segment is built from whatever comes: nothing, one row, only NULLs, in any cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.kinds.contract import SUMMARY_BYTES_MAX
from lancewright.testing.checks.asking import ask, compare, offers_of
from lancewright.testing.expecting import expect

if TYPE_CHECKING:
    from lancewright.testing.laboratory import Laboratory

_TRIES = 12


def check_a_segment_without_rows_answers_nothing(laboratory: Laboratory) -> None:
    """A fragment may have lost all its rows."""
    for case in laboratory.harness.cases:
        built = laboratory.build(case, laboratory.rows(case, 0))
        for _ in range(_TRIES):
            compare(built, laboratory.group(case))


def check_a_segment_of_one_row_is_right(laboratory: Laboratory) -> None:
    """The first row is the last."""
    for case in laboratory.harness.cases:
        for nulls in (0.0, 1.0):
            built = laboratory.build(case, laboratory.rows(case, 1, nulls))
            for _ in range(_TRIES):
                compare(built, laboratory.group(case))


def check_a_batch_of_nulls_is_right(laboratory: Laboratory) -> None:
    """Lance #8283: one batch without values made every query of an R-tree empty."""
    for case in laboratory.harness.cases:
        filled, empty = laboratory.rows(case, 40, 0.0), laboratory.rows(case, 20, 1.0)
        columns = tuple(
            pa.concat_arrays([left, none, left]) for left, none in zip(filled, empty, strict=True)
        )
        built = laboratory.build(case, columns, batch=20)
        for _ in range(_TRIES):
            compare(built, laboratory.group(case))


def check_any_cut_into_batches_gives_the_same_answers(laboratory: Laboratory) -> None:
    """How many rows come at a time is chance."""
    for case in laboratory.harness.cases:
        columns = laboratory.rows(case, 90)
        segments = [laboratory.build(case, columns, batch=batch) for batch in (1, 7, 1000)]
        for _ in range(_TRIES):
            group = laboratory.group(case)
            answers = [[ask(built, offer) for offer in offers_of(built, group)] for built in segments]
            expect(answers[0] == answers[1] == answers[2], "batches of 1, 7 and 1,000 rows answer alike")


def check_the_summary_stays_small(laboratory: Laboratory) -> None:
    """Every manifest carries it. Long values are the ones that make it large."""
    for case in laboratory.harness.cases:
        columns = laboratory.many_rows(case, 20_000)
        size = len(laboratory.build(case, columns, batch=5_000).index.segments[0].details.summary)
        expect(size <= SUMMARY_BYTES_MAX, f"the summary of 20,000 rows has at most 64 KiB, not {size}")
