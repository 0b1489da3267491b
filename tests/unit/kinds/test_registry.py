"""Which kinds there are, and how they are found."""

from __future__ import annotations

import pytest

from lancewright.errors import InvalidRequestError
from lancewright.kinds.registry import find_kind, list_kinds


def test_every_kind_has_a_name_of_its_own_and_a_sentence_about_it() -> None:
    names = [name for kind in list_kinds() for name in (kind.name, *kind.aliases)]

    assert len(names) == len(set(names))
    assert all(kind.doc for kind in list_kinds())
    assert all(parameter.doc for kind in list_kinds() for parameter in kind.parameters)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("BTREE", "btree"),
        ("fts", "inverted"),
        ("LabelList", "label_list"),
        (" ivf-pq ", "ivf_pq"),
        ("minhash", "minhash_lsh"),
    ],
)
def test_a_kind_is_found_by_name_or_alias_ignoring_case(asked: str, found: str) -> None:
    assert find_kind(asked).name == found


def test_an_unknown_kind_is_an_error_that_suggests_the_nearest() -> None:
    with pytest.raises(InvalidRequestError, match="Did you mean 'bitmap'") as caught:
        find_kind("bitmpa")

    assert "ivf_hnsw_sq" in caught.value.remedy
