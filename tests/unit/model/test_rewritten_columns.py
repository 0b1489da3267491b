"""What the files of a fragment tell about columns that were rewritten in place, under any history of changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from lancewright.model.snapshot import REWRITTEN, DataFile, Fragment


@dataclass
class _History:
    """Writes files as Lance does: a rewrite marks the old places and drops a file with nothing left in it."""

    files: list[list[int]]
    ids_used: int
    rewritten: set[int] = field(default_factory=set)

    @property
    def columns(self) -> list[int]:
        return sorted(field_id for file in self.files for field_id in file if field_id != REWRITTEN)

    def add(self, count: int) -> None:
        self.files.append(list(range(self.ids_used, self.ids_used + count)))
        self.ids_used += count

    def rewrite(self, field_ids: set[int]) -> None:
        marked = [[REWRITTEN if entry in field_ids else entry for entry in file] for file in self.files]
        self.files = [file for file in marked if set(file) != {REWRITTEN}] + [sorted(field_ids)]
        self.rewritten |= field_ids

    def fragment(self) -> Fragment:
        files = tuple(
            DataFile(path=str(number), field_ids=tuple(file)) for number, file in enumerate(self.files)
        )
        return Fragment(id=0, physical_rows=1, deleted_rows=0, deletion_stamp=None, files=files)


@st.composite
def _histories(draw: st.DrawFn) -> _History:
    columns = draw(st.integers(1, 6))
    history = _History(files=[list(range(columns))], ids_used=columns)
    for _ in range(draw(st.integers(0, 6))):
        if draw(st.booleans()):
            history.add(draw(st.integers(1, 3)))
        else:
            history.rewrite(draw(st.sets(st.sampled_from(history.columns), min_size=1)))
    return history


@given(_histories())
def test_a_column_that_was_never_rewritten_is_never_called_so(history: _History) -> None:
    fragment = history.fragment()

    for column in set(history.columns) - history.rewritten:
        assert not fragment.was_rewritten((column,)), history.files


@given(st.integers(2, 6), st.data(), st.integers(0, 3))
def test_a_rewrite_is_seen_as_long_as_a_neighbour_in_the_file_is_left(
    columns: int, data: st.DataObject, added: int
) -> None:
    history = _History(files=[list(range(columns))], ids_used=columns)
    rewritten = data.draw(st.sets(st.integers(0, columns - 1), min_size=1, max_size=columns - 1))

    for column in sorted(rewritten):
        history.rewrite({column})
        history.add(added)

    fragment = history.fragment()
    assert {column for column in range(columns) if fragment.was_rewritten((column,))} == rewritten


def test_a_rewrite_inside_a_struct_that_grew_is_seen() -> None:
    # Field 9 was added to a struct in the middle, so the ids of the file do not ascend.
    history = _History(files=[[0, 4, 9, 2]], ids_used=10)

    history.rewrite({9})

    assert history.fragment().was_rewritten((9,))


def test_the_stamp_of_a_column_changes_with_its_own_rewrite_only() -> None:
    history = _History(files=[[0, 1, 2]], ids_used=3)
    before = history.fragment()

    history.rewrite({1})
    history.add(1)

    after = history.fragment()
    assert after.stamp((1,)) != before.stamp((1,))
    assert after.stamp((0,)) == before.stamp((0,))
    assert after.stamp((2, 0)) == before.stamp((0, 2))
