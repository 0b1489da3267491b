"""Golden segments of the kinds that come with the package, and the checks that go with golden segments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lancewright.testing import KindHarness, run_check, run_kit, write_golden
from lancewright.testing.golden import list_golden, read_golden
from lancewright.testing.toys import ShelfKind, ShelfReader, shelf_harness
from support.golden import GOLDEN, KEPT

if TYPE_CHECKING:
    from pathlib import Path
    from typing import ClassVar

    import numpy as np
    from numpy.typing import NDArray

    from lancewright.kinds.contract import Operator, Reader, Spec, Store

READ = "golden_segments_are_read_and_answer_as_ever"
KEPT_ONE = "a_golden_segment_of_the_format_written_is_kept"


@pytest.mark.parametrize("harness", KEPT, ids=lambda harness: harness.kind().name)
def test_a_golden_segment_is_kept_of_every_format_that_a_kind_reads(harness: KindHarness) -> None:
    formats = {read_golden(path).details.format for path in list_golden(harness)}

    assert formats == harness.kind().reads


def test_golden_segments_are_small_and_those_of_a_known_kind() -> None:
    files = sorted(GOLDEN.iterdir())

    assert [path for path in files if path.stat().st_size > 8 << 10] == []
    assert files == sorted(path for harness in KEPT for path in list_golden(harness))


class OtherReader(ShelfReader):
    """Reads its values from the end: the files of an earlier release have them the other way round."""

    def matches(self, operator: Operator, bounds: list[float]) -> NDArray[np.bool_]:
        return super().matches(operator, bounds)[::-1]


class ChangedKind(ShelfKind):
    """Another layout of the same files, without another format."""

    def open(self, spec: Spec, store: Store) -> Reader:
        del spec
        return OtherReader(store)


class ForgetfulKind(ShelfKind):
    """A later release that writes format 2 and has forgotten how to read format 1."""

    writes: ClassVar[int] = 2
    reads: ClassVar[frozenset[int]] = frozenset({2})


def test_a_kind_that_reads_its_old_files_differently_is_found_out(tmp_path: Path) -> None:
    written = write_golden(replace(shelf_harness(), golden=tmp_path))

    result = run_check(replace(shelf_harness(ChangedKind), golden=tmp_path), READ)

    assert [path.name for path in written] == ["shelf-1-0.golden", "shelf-1-1.golden"]
    assert "BrokenPromiseError" in result.problem


def test_a_kind_that_cannot_read_its_old_format_is_found_out(tmp_path: Path) -> None:
    write_golden(replace(shelf_harness(), golden=tmp_path))

    result = run_check(replace(shelf_harness(ForgetfulKind), golden=tmp_path), READ)

    assert "BrokenPromiseError" in result.problem
    assert "readable" in result.problem


def test_an_author_is_told_when_no_golden_segment_is_kept(tmp_path: Path) -> None:
    without = run_check(shelf_harness(), KEPT_ONE)
    harness = replace(shelf_harness(), golden=tmp_path)
    before = run_check(harness, KEPT_ONE)
    write_golden(harness)

    assert not without.passed
    assert "write_golden(harness)" in before.problem
    assert run_kit(harness, only=[KEPT_ONE, READ]).failed == ()
    assert run_kit(shelf_harness(), only=[KEPT_ONE]).conforms


def test_what_is_there_is_never_written_anew(tmp_path: Path) -> None:
    harness = replace(shelf_harness(), golden=tmp_path)
    (first, second) = write_golden(harness)
    content = first.read_bytes()
    first.write_bytes(b"an old one")
    second.unlink()

    assert write_golden(harness) == (second,)
    assert first.read_bytes() == b"an old one"
    first.unlink()
    assert write_golden(harness) == (first,)
    assert first.read_bytes() == content
