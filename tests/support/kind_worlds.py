"""Makes the tables of ``query_worlds`` with indexes of our own kinds on them, in the midst of a life of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np

import lancewright as lw
from support.query_worlds import _CHANGES, FRAGMENT_ROWS, ROWS, World, _rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.random import Generator

INDEXES: tuple[tuple[str, Any], ...] = (
    ("composite", ["i", "s"]),
    ("composite", ["b", "f", "t"]),
    ("composite", ["s", "i"]),
    ("composite", ["n.x", "g"]),
    ("composite", ["f"]),
    ("key", ["i"]),
    ("key", ["s", "i"]),
    ("key", ["f"]),
    ("key", ["b", "n.x"]),
    ("btree", "other"),
    ("bitmap", "i"),
)
EXPRESSION_INDEXES: tuple[tuple[str, Any], ...] = (
    ("composite", ["lower(s)", "i"]),
    ("composite", ["i + 1"]),
    ("composite", ["b", "length(s)"]),
    ("composite", ["date_trunc('second', t)", "left(s, 1)"]),
    ("composite", ["coalesce(s, 'none')"]),
    ("composite", ["upper(n.`odd name`)", "n.x"]),
    ("composite", ["starts_with(s, 'a')", "i % 3"]),
    ("key", ["lower(s)"]),
    ("key", ["CAST(i AS STRING)", "b"]),
    ("key", ["nullif(s, 'a')"]),
    ("key", ["abs(i)"]),
    ("composite", ["s", "i"]),
    ("btree", "i"),
)
COVERING_INDEXES: tuple[tuple[str, Any, list[str]], ...] = (
    ("composite", ["i", "s"], ["id", "f"]),
    ("composite", ["b", "other"], ["s", "id", "t"]),
    ("composite", ["lower(s)"], ["i", "s", "g", "b"]),
    ("composite", ["n.x"], ["id", "i", "other"]),
    ("key", ["i"], ["s", "f", "id"]),
    ("key", ["s", "b"], ["i"]),
)
_CHANGES_MADE = 6


def make_kind_world(
    folder: Path, seed: int, indexes: Sequence[tuple[Any, ...]] = INDEXES, chosen_of_them: int = 6
) -> World:
    """A table with a random set of indexes, most of which no longer cover all of it."""
    random = np.random.default_rng(seed)
    uri = str(folder / f"kind-world-{seed}")
    stable = bool(seed % 2)
    lance.write_dataset(
        _rows(random, ROWS, 0), uri, max_rows_per_file=FRAGMENT_ROWS, enable_stable_row_ids=stable
    )
    history = [f"seed {seed}", "stable row ids" if stable else "row addresses"]
    chosen = [indexes[place] for place in random.choice(len(indexes), chosen_of_them, replace=False)]
    acts: list[Callable[[], str]] = [
        *(lambda one=one: _index(uri, random, *one) for one in chosen),
        *(
            lambda act=act: act(uri, random)
            for act in random.choice(np.array(_CHANGES, dtype=object), _CHANGES_MADE)
        ),
    ]
    history += [acts[place]() for place in random.permutation(len(acts))]
    return World(uri=uri, history=tuple(history))


def _index(uri: str, random: Generator, kind: str, columns: Any, include: list[str] | None = None) -> str:
    name = f"{kind}_{'_'.join(columns) if isinstance(columns, list) else columns}".replace(".", "_")
    table = lw.open(uri, progress=False)
    options = {} if include is None else {"include": include}
    table.create_index(columns, kind=kind, name=name, segments=int(random.integers(1, 4)), **options)
    return f"{kind} on {columns} with {include}"
