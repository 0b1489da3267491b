"""What our own kinds take as keys and parameters. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.kinds.whole_numbers import is_fixed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lancewright.kinds.contract import Key

KEYS_MAX = 16
_VARIABLE = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_decimal128,
    pa.types.is_decimal256,
)


def is_text(type_: pa.DataType) -> bool:
    """True for Arrow's string types."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def check_keys(kind: str, keys: Sequence[Key]) -> None:
    """Raise InvalidRequestError when a key has no order and no equality, or there are too many."""
    if not 1 <= len(keys) <= KEYS_MAX:
        raise InvalidRequestError(
            f"Kind {kind!r} was given {len(keys)} columns", f"It takes 1 to {KEYS_MAX}."
        )
    for key in keys:
        if _is_json(key):
            raise InvalidRequestError(
                f"Kind {kind!r} cannot index {key.name}: JSON has no order", "Index a key of it in a column."
            )
        if not is_fixed(key.type) and not any(test(key.type) for test in _VARIABLE):
            raise InvalidRequestError(
                f"Kind {kind!r} cannot index {key.name}: {key.type} has no order",
                "Choose columns of numbers, texts, bytes, booleans, dates or times.",
            )


def check_no_parameters(kind: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Raise InvalidRequestError when a kind that takes no parameters was given one."""
    if parameters:
        raise InvalidRequestError(
            f"Kind {kind!r} has no parameter {next(iter(parameters))!r}", "It takes none."
        )
    return {}


def _is_json(key: Key) -> bool:
    return dict(key.metadata).get("ARROW:extension:name") in {"arrow.json", "lance.json"}
