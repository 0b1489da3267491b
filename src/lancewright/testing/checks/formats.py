"""What is damaged, cut short or too new is noticed. It never makes a wrong row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lancewright.errors import LancewrightError
from lancewright.kinds.plugins import Trouble, judge_segment
from lancewright.testing.checks.asking import ask, offers_of
from lancewright.testing.expecting import expect

if TYPE_CHECKING:
    from lancewright.query.kind_matching import Offer
    from lancewright.testing.fake import MemoryPlace
    from lancewright.testing.laboratory import Built, Laboratory

_TRIES = 6


def check_a_flipped_bit_is_noticed_or_harmless(laboratory: Laboratory) -> None:
    """In every file, at several places."""
    for built, offer in _asked(laboratory):
        expect_flips_are_noticed(laboratory, built, offer)


def check_a_file_cut_short_is_noticed_or_harmless(laboratory: Laboratory) -> None:
    """Also one that is empty."""
    for built, offer in _asked(laboratory):
        expect_cuts_are_noticed(built, offer)


def check_a_newer_format_is_refused(laboratory: Laboratory) -> None:
    """By the framework: a kind has no say in it."""
    case = laboratory.harness.cases[0]
    details = laboratory.build(case, laboratory.rows(case, 10)).index.segments[0].details
    judged = judge_segment(laboratory.kind, replace(details, format=max(laboratory.kind.reads) + 1))
    expect(judged is not None and judged.trouble is Trouble.FORMAT_TOO_NEW, "a newer format is too new")


def expect_damage_is_noticed(laboratory: Laboratory, built: Built, offer: Offer) -> None:
    """Neither a flipped bit nor a file cut short changes the answer unnoticed."""
    expect_flips_are_noticed(laboratory, built, offer)
    expect_cuts_are_noticed(built, offer)


def expect_flips_are_noticed(laboratory: Laboratory, built: Built, offer: Offer) -> None:
    """Flip bits of every file, one at a time."""
    wanted = ask(built, offer, may_skip=False)
    for name, content in built.place.files.items():
        for place in laboratory.random.integers(0, max(1, len(content)), _TRIES).tolist():
            if content:
                flipped = bytes([content[place] ^ 0x10])
                damaged = built.place.damaged(name, content[:place] + flipped + content[place + 1 :])
                _expect_unharmed(built, offer, wanted, damaged, f"a flipped bit in {name}")


def expect_cuts_are_noticed(built: Built, offer: Offer) -> None:
    """Cut every file to nothing, to half, and by its last byte."""
    wanted = ask(built, offer, may_skip=False)
    for name, content in built.place.files.items():
        for length in {0, len(content) // 2, max(0, len(content) - 1)}:
            damaged = built.place.damaged(name, content[:length])
            _expect_unharmed(built, offer, wanted, damaged, f"{name} cut to {length} bytes")


def _asked(laboratory: Laboratory) -> list[tuple[Built, Offer]]:
    found: list[tuple[Built, Offer]] = []
    for case in laboratory.harness.cases[:4]:
        built = laboratory.build(case, laboratory.rows(case, 300))
        for _ in range(_TRIES):
            for offer in offers_of(built, laboratory.group(case)):
                found.append((built, offer))
                break
    return found


def _expect_unharmed(
    built: Built, offer: Offer, wanted: frozenset[int], damaged: MemoryPlace, what: str
) -> None:
    probe = offer.probe
    try:
        opened = built.opened(damaged)
        if probe.probe is None:
            found = frozenset(opened.nulls(probe.keys[0], negated=probe.negated))
        else:
            found = frozenset(opened.lookup(probe.probe, probe.keys, negated=probe.negated))
    except LancewrightError:
        return
    expect(found == wanted, f"{what} does not change the answer unnoticed")
