"""A ranked query gives the best rows of those allowed, best first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancewright.errors import LancewrightError
from lancewright.kinds.contract import IndexKind
from lancewright.testing.expecting import expect

if TYPE_CHECKING:
    from lancewright.kinds.contract import Hits, SearchProbe
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


def check_rows_are_scored_as_they_are_ranked(laboratory: Laboratory) -> None:
    """Where the kind scores rows one by one: those outside the index rank beside those in it, and those without a rank have none."""
    for built, ranking in _tried(laboratory):
        probe = _probe(built, ranking)
        if probe is None or type(built.kind).score is IndexKind.score:
            continue
        hits = built.opened().reader.search(probe, [], len(built.live), None)
        names = [f"k{place}" for place in range(len(built.columns))]
        batch = pa.RecordBatch.from_arrays(list(built.columns), names)
        scores = built.kind.score(built.spec, probe, batch)
        expect(len(scores) == len(batch), "every row has a score, if only NaN")
        ranked = dict(zip(hits.rows.tolist(), hits.scores.tolist(), strict=True))
        other = [row for row, score in ranked.items() if score != scores[row]]
        expect(not other, f"rows {other[:5]} have the scores they are ranked by")
        lost = sorted(set(np.flatnonzero(~np.isnan(scores)).tolist()) - set(ranked))
        expect(not lost, f"rows {lost[:5]}, which have a score, are ranked")


def check_damage_is_noticed_when_rows_are_ranked(laboratory: Laboratory) -> None:
    """A flipped bit, or a file cut short, is an error or changes nothing."""
    for built, ranking in _tried(laboratory):
        probe = _probe(built, ranking)
        if probe is None or probe.needs_statistics:
            continue
        wanted = built.opened().search(probe, [], 20, None).rows.tolist()
        for name, content in built.place.files.items():
            for place in laboratory.random.integers(0, max(1, len(content)), 3).tolist():
                flipped = content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]
                for damaged in (flipped, content[:place]):
                    try:
                        found = built.opened(built.place.damaged(name, damaged)).search(probe, [], 20, None)
                    except LancewrightError:
                        continue
                    expect(found.rows.tolist() == wanted, f"damage to {name} does not change the answer")


def _near(one: float, other: float) -> bool:
    return one == other or math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)


def _probe(built: Built, ranking: Ranking) -> SearchProbe | None:
    probe = built.kind.plan_search(built.spec, ranking.query)
    expect(probe is not None, f"the query {dict(ranking.query)} is accepted")
    return probe


def _tried(laboratory: Laboratory) -> list[tuple[Built, Ranking]]:
    return [
        (laboratory.build(case, laboratory.rows(case, 200, 0.0)), ranking)
        for case in (laboratory.harness.cases if laboratory.harness.rankings else ())
        for ranking in laboratory.harness.rankings
    ]


def _compare(built: Built, ranking: Ranking, k: int, allowed: BitMap | None) -> None:
    probe = _probe(built, ranking)
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
    wrong = [
        row for row, score in zip(found, hits.scores.tolist(), strict=True) if not _near(score, scores[row])
    ]
    expect(not wrong, f"rows {wrong[:5]} have their own scores, also when they are found by estimates")
    last = scores[best[-1]] if best else 0.0
    right = sum(sign * scores[row] <= sign * last or _near(scores[row], last) for row in found)
    expect(right >= ranking.recall * len(best), f"{right} of the {len(best)} best rows are found")
    if ranking.recall == 1.0:
        expect(found == best, "equal scores come in the order of the rows")
