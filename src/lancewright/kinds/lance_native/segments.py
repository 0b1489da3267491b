"""Builds and merges segments with Lance's own builders. Writes index files; commits nothing.

``table.lance_compat`` converts Lance's ``Index`` from and to ``model.index.Segment``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.kinds.lance_native.finishing import finish_inverted, finish_json_bitmap
from lancewright.kinds.lance_native.scalar_calls import create_scalar
from lancewright.kinds.lance_native.translation import lance_errors
from lancewright.kinds.lance_native.vector_calls import create_vector
from lancewright.model.vector_details import vector_kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import lance
    from lance.dataset import Index

    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.kinds.lance_native.vector_model import VectorModel
    from lancewright.model.columns import Column


def build_segment(  # noqa: PLR0913 - the first four and the name are the job, the rest is the task
    dataset: lance.LanceDataset,
    kind: NativeKind,
    column: Column,
    parameters: Mapping[str, Any],
    fragments: Sequence[int],
    name: str,
    *,
    train: bool = True,
    model: VectorModel | None = None,
) -> Index:
    """Write one finished segment over these fragments of the dataset's version and return its entry, uncommitted.

    ``parameters`` are validated ones, without model parts; a vector kind takes those from ``model``. With
    ``train=False`` the segment is empty and claims no fragment, whatever is passed: Lance itself would let an empty
    segment claim the fragments, and every query would then miss their rows.
    """
    covered = sorted(set(fragments)) if train else []
    with lance_errors(f"build {kind.name} on {column.path} over fragments {_short(covered)}"):
        if kind.family == "vector":
            return create_vector(dataset, kind, column, parameters, covered, name, model=model)
        index = create_scalar(dataset, kind, column, parameters, covered, name)
        if kind.name == "inverted" and covered:
            return finish_inverted(dataset, index)
        if parameters.get("target_index_type") == "bitmap" and covered:
            return finish_json_bitmap(dataset, index)
        return index


def merge_segments(dataset: lance.LanceDataset, segments: Sequence[Index]) -> Index:
    """Write one segment that holds these ones' rows; they must be of one kind, one model and disjoint fragments."""
    if not segments:
        raise InvalidRequestError("There are no segments to merge", "Pass at least one.")
    type_url, details = segments[0].index_details or ("", b"")
    if type_url.endswith("JsonIndexDetails"):
        raise UnsupportedError("Lance does not merge JSON segments", "Commit them as they are.")
    if len(segments) > 1 and (vector_kind(details) if "Vector" in type_url else "").endswith("_sq"):
        # Lance takes the first segment's bounds for all and says nothing: recall fell from 0.935 to 0.555.
        raise UnsupportedError(
            "SQ segments cannot be merged without losing recall", "Build the index as one segment."
        )
    with lance_errors(f"merge {len(segments)} segments"):
        return dataset.merge_existing_index_segments(list(segments))


def _short(fragments: Sequence[int]) -> str:
    shown = ", ".join(str(fragment) for fragment in fragments[:8])
    return f"{shown}, … ({len(fragments)} in all)" if len(fragments) > 8 else shown or "none"
