"""A ranked query gives the best rows of those allowed, best first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from lancewright.testing.expecting import expect

if TYPE_CHECKING:
    from lancewright.kinds.contract import Hits
    from lancewright.testing.harness import Ranking
    from lancewright.testing.laboratory import Built, Laboratory


def check_the_best_rows_are_found_best_first(laboratory: Laboratory) -> None:
    """Also of none and of more than there are; equal scores in the order of the rows."""
    for built, ranking in _tried(laboratory):
        for k in (0, 1, 5, len(built.live) + 10):
            _compare(built, ranking, k, None)


def check_only_allowed_rows_are_found_and_as_many_as_there_are(laboratory: Laboratory) -> None:
    """As many rows as are asked for come back if they are allowed, however far down they rank."""
    for built, ranking in _tried(laboratory):
        rows = sorted(built.live)
        for share in (0.0, 0.03, 0.5):
            allowed = BitMap(row for row in rows if laboratory.random.random() < share)
            _compare(built, ranking, 7, allowed)


def _tried(laboratory: Laboratory) -> list[tuple[Built, Ranking]]:
    return [
        (laboratory.build(case, laboratory.rows(case, 200, 0.0)), ranking)
        for case in (laboratory.harness.cases if laboratory.harness.rankings else ())
        for ranking in laboratory.harness.rankings
    ]


def _compare(built: Built, ranking: Ranking, k: int, allowed: BitMap | None) -> None:
    probe = built.kind.plan_search(built.spec, ranking.query)
    expect(probe is not None, f"the query {dict(ranking.query)} is accepted")
    if probe is None:
        return
    expect(probe.descending == ranking.descending, "the probe says which end of the scores is best")
    reader = built.opened().reader
    hits: Hits = reader.search(probe, [reader.statistics(probe)], k, allowed)
    columns = [column.to_pylist() for column in built.columns]
    scores = {row: float(ranking.score(*(column[row] for column in columns))) for row in built.live}
    sign = -1.0 if ranking.descending else 1.0
    may = [row for row in built.live if (allowed is None or row in allowed) and not np.isnan(scores[row])]
    best = sorted(may, key=lambda row: (sign * scores[row], row))[:k]
    found = hits.rows.tolist()
    expect(set(found) <= set(may), f"only allowed rows are found, not {sorted(set(found) - set(may))[:5]}")
    expect(len(found) == len(best), f"{len(best)} rows are found for k={k}, not {len(found)}")
    order = [sign * score for score in hits.scores.tolist()]
    expect(order == sorted(order), "the best come first")
    right = len(set(found) & set(best))
    expect(right >= ranking.recall * len(best), f"{right} of the {len(best)} best rows are found")
    if ranking.recall == 1.0:
        expect(found == best, "equal scores come in the order of the rows")
