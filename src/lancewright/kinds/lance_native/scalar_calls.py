"""The native call that builds a segment of a scalar or text kind, with its parameters in the form Lance honours."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.kinds.lance_native.scalar import TEXT_TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance.dataset import Index

    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.model.columns import Column


def create_scalar(
    dataset: Any,  # a LanceDataset: the raw call below it is untyped
    kind: NativeKind,
    column: Column,
    parameters: Mapping[str, Any],
    covered: list[int],
    name: str,
) -> Index:
    """Write the segment; ``covered`` empty makes an empty one.

    Lance's Python layer refuses FM, JSON, RTREE parameters and bitmaps of dictionaries, and drops keyword arguments of
    most other kinds, so the call below it is used, where parameters travel as JSON.
    """
    native: Any = importlib.import_module("lance.lance")  # compiled, without types
    index: Index
    call = dataset._ds.create_index  # noqa: SLF001 - the Python call above it refuses kinds and columns this one builds
    if kind.name == "bitmap":
        # Only the form without a config writes a whole segment: with one, Lance wants a shard and writes part of one.
        # It also insists on train=True for an empty segment.
        index = call([column.path], "BITMAP", name, True, True, None, {"fragment_ids": covered})  # noqa: FBT003
        return index
    if parameters.get("target_index_type") == "bitmap" and not covered:
        raise UnsupportedError(
            "Lance makes no empty JSON index over bitmaps", "Use train=True or the target 'btree'."
        )
    if kind.name == "json" and "target_data_type" not in parameters:
        is_text = parameters["target_index_type"] in TEXT_TARGETS
        type_ = "Utf8" if is_text else first_json_type(dataset, column, parameters["path"])
        parameters = {**parameters, "target_data_type": type_}
    config = native.indices.IndexConfig(
        kind.lance_name, json.dumps(lance_parameters(kind, parameters, covered))
    )
    options = {"config": config, "document_granularity": "row", "fragment_ids": covered}
    index = call([column.path], "scalar", name, True, bool(covered), None, options)  # noqa: FBT003
    return index


def lance_parameters(kind: NativeKind, parameters: Mapping[str, Any], covered: list[int]) -> dict[str, Any]:
    """The parameters as Lance's JSON form spells them."""
    if kind.name == "btree":
        page_rows = parameters.get("page_rows", parameters.get("zone_size"))
        return {} if page_rows is None else {"zone_size": page_rows}
    if kind.name != "json":
        # document_granularity counts here and not as the option of the same name, which this route ignores.
        return dict(parameters)
    target = dict(parameters.get("target_index_parameters", {}))
    if parameters["target_index_type"] == "bitmap":
        # One shard per segment: `finishing.finish_json_bitmap` turns the shard's file into the segment's.
        target["shard_id"] = covered[0] if covered else 0
    # Lance wants the inner parameters as a string with JSON inside the JSON.
    return {**parameters, "target_index_parameters": json.dumps(target)}


def first_json_type(dataset: Any, column: Column, path: str) -> str:  # a LanceDataset, untyped inside
    """The type of the first value under this key in the table; every task of a job finds the same.

    Left to itself, Lance takes the type from each segment's own rows; segments of different types then fail queries.
    """
    value = f"json_extract({column.path}, '{path}')"
    found = dataset.to_table(
        columns={"value": value},
        filter=f"{value} IS NOT NULL AND {value} != 'null'",
        limit=1,
        scan_in_order=True,
    )
    if not found.num_rows:
        # Lance takes text then; once numbers are there, filters on them fail over such an index.
        raise InvalidRequestError(
            f"No row of column {column.path} has a value under {path!r}, so its type is not known",
            "Pass target_data_type: 'Int64', 'Float64' or 'Utf8'.",
        )
    first = json.loads(found["value"][0].as_py())
    return {int: "Int64", float: "Float64"}.get(type(first), "Utf8")
