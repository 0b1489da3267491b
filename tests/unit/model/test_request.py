"""What only looks like a request is refused where it is made."""

from __future__ import annotations

from typing import Any

import pytest

from lancewright.errors import InvalidRequestError
from lancewright.model.request import IndexRequest


@pytest.mark.parametrize(
    "wrong",
    [
        {"column": 5},
        {"column": None},
        {"column": []},
        {"column": ["id", 5]},
        {"kind": None},
        {"name": b"x"},
        {"parameters": None},
        {"segments": "2"},
        {"segments": 2.5},
        {"segments": True},
        {"replace": "no"},
        {"train": 1},
        {"replace": True, "if_not_exists": True},
    ],
    ids=str,
)
def test_a_value_of_another_type_is_refused_and_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        IndexRequest(**{"column": "id", "kind": "btree", **wrong})

    assert next(iter(wrong)) in caught.value.problem
