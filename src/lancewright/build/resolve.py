"""Turns what a caller asked into validated specs, or into one clear error before any task starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancewright.build.keys import INCLUDE, find_keys, require_native_key
from lancewright.build.kind_worker import keys_of
from lancewright.build.spec import IndexSpec
from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.kinds.lance_native.parameters import check_stable_row_ids, validate_parameters
from lancewright.kinds.lance_native.scalar import RANGE_PARAMETERS
from lancewright.kinds.lance_native.vector_model import VectorModel, check_model, take_model
from lancewright.kinds.plugin_kind import PluginKind
from lancewright.kinds.registry import find_any_kind, find_kind, require_plugin
from lancewright.kinds.segment.calling import calling
from lancewright.model.index import SYSTEM_INDEX_PREFIX
from lancewright.model.request import IndexRequest
from lancewright.table.config import DEFER_REMAP_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancewright.build.keys import RequestedKeys, TypeOf
    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.kinds.registry import AnyKind
    from lancewright.model.columns import Column
    from lancewright.model.snapshot import TableSnapshot

_NAME_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRequest:
    """A request that fits the table: the spec for the tasks and what only the driver needs.

    ``model_is_whole``: nothing of the given model is left to train.
    """

    request: IndexRequest
    spec: IndexSpec
    kind: AnyKind
    given_model: VectorModel | None
    exists: bool
    fingerprint: str
    model_is_whole: bool = False

    @property
    def is_satisfied(self) -> bool:
        """True when nothing has to be done because the index is there already."""
        return self.exists and self.request.if_not_exists and not self.request.replace


def resolve_requests(
    snapshot: TableSnapshot, requests: Iterable[IndexRequest], type_of: TypeOf
) -> tuple[ResolvedRequest, ...]:
    """Validate every request against the table; the first that does not fit raises.

    ``type_of`` gives the type of an expression over the table's columns.
    """
    asked = _read_requests(requests)
    if not asked:
        raise InvalidRequestError("No index was asked for", "Pass at least one IndexRequest.")
    resolved = tuple(_resolve(snapshot, request, type_of) for request in asked)
    names = [entry.spec.name for entry in resolved]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidRequestError(
            f"Two requests would make an index named {twice[0]!r}", "Give each request its own name=."
        )
    return resolved


def resolve_stored(spec: IndexSpec, request: IndexRequest, kind: PluginKind) -> ResolvedRequest:
    """A request for more of an index that there is: its spec is what its segments say, and needs no validation."""
    return ResolvedRequest(
        request=request,
        spec=spec,
        kind=kind,
        given_model=None,
        exists=True,
        fingerprint=_fingerprint(spec, request, None),
    )


def _read_requests(given: object) -> tuple[IndexRequest, ...]:
    # Read once: what comes out of a generator is gone after the first look.
    entries = tuple(given) if isinstance(given, Iterable) else (None,)
    requests = tuple(entry for entry in entries if isinstance(entry, IndexRequest))
    if len(requests) < len(entries):
        raise InvalidRequestError(
            "create_indexes takes a list of IndexRequest", "Wrap each in IndexRequest(…)."
        )
    return requests


def _resolve(snapshot: TableSnapshot, request: IndexRequest, type_of: TypeOf) -> ResolvedRequest:
    keys = find_keys(snapshot, request, type_of)
    columns = keys.columns
    kind, parameters, ranged = _validate(find_any_kind(request.kind), keys, request, snapshot)
    _require_segments(kind, request, ranged=ranged)
    name = request.name if request.name is not None else keys.default_name
    exists = bool(snapshot.segments_named(name))
    _require_name(name, request, exists=exists)
    _require_rows(snapshot, request)
    plain, given = _split_model(kind, columns[0], parameters)
    spec = IndexSpec(
        name=name,
        kind=kind.name,
        column=columns[0],
        more_columns=columns[1:],
        parameters_json=json.dumps(plain, sort_keys=True),
        train=request.train,
        plugin=kind.ref if isinstance(kind, PluginKind) else None,
        keys=() if keys.are_columns else keys.keys,
        kept=keys.kept,
    )
    return ResolvedRequest(
        request=request,
        spec=spec,
        kind=kind,
        given_model=given,
        exists=exists,
        fingerprint=_fingerprint(spec, request, given),
    )


def _default_layout(request: IndexRequest, parameters: Mapping[str, Any]) -> str:
    """Sorted as a whole, unless several segments are asked for and nothing says that ranges are meant."""
    several = request.segments is not None and request.segments > 1
    return "fragment" if several and not any(name in parameters for name in RANGE_PARAMETERS) else "range"


def _validate(
    kind: AnyKind, keys: RequestedKeys, request: IndexRequest, snapshot: TableSnapshot
) -> tuple[AnyKind, dict[str, Any], bool]:  # Any: each kind has its own parameters
    """The kind with these parameters, the parameters as it wants them, and whether the rows are sorted as a whole."""
    if isinstance(kind, PluginKind):
        return kind, _validate_plugin(kind, keys, request), False
    require_native_key(kind, keys)
    parameters = validate_parameters(kind, keys.columns[0], request.parameters)
    if kind.parameter("layout") is not None:
        parameters.setdefault("layout", _default_layout(request, parameters))
    kind = kind.settled(parameters)
    _require_harmless_config(kind, parameters, snapshot)
    if snapshot.stable_row_ids:
        check_stable_row_ids(kind, parameters)
    return kind, parameters, parameters.get("layout") == "range"


def _validate_plugin(
    kind: PluginKind, keys: RequestedKeys, request: IndexRequest
) -> dict[str, Any]:  # Any: as above
    implementation = require_plugin(kind.name)
    own = {name: value for name, value in request.parameters.items() if name != INCLUDE}
    with calling(implementation, "validate"):
        parameters = implementation.validate(keys_of(keys.keys), own)
    try:
        return dict(json.loads(json.dumps(parameters)))
    except (TypeError, ValueError) as error:
        raise UnsupportedError(
            f"Kind {kind.name!r} returned parameters that JSON cannot keep: {error}",
            "Report it to the author of the kind.",
        ) from error


def _require_harmless_config(
    kind: NativeKind, parameters: Mapping[str, Any], snapshot: TableSnapshot
) -> None:
    """Some kinds answer wrongly after a compaction with deferred remap, which this table asks every engine for."""
    if snapshot.config.get(DEFER_REMAP_KEY) != "true" or survives_deferred_remap(kind, parameters):
        return
    raise UnsupportedError(
        f"Kind {kind.name!r} does not survive a compaction with deferred remap, which this table is set to",
        f"Use another kind; or build the B-trees again with defer_remap=False and set the table's {DEFER_REMAP_KEY} to 'false'.",
    )


def survives_deferred_remap(kind: AnyKind, parameters: Mapping[str, Any]) -> bool:
    """True when an index of this kind stays right through a compaction with deferred remap."""
    inner = None if isinstance(kind, PluginKind) else parameters.get("target_index_type")
    return kind.follows_deferred_compaction and (
        inner is None or find_kind(inner).follows_deferred_compaction
    )


def _require_segments(kind: AnyKind, request: IndexRequest, *, ranged: bool) -> None:
    if request.segments is None:
        return
    if ranged and request.segments > 1:
        raise InvalidRequestError(
            "A range-sorted index is one segment by design, so that a lookup reads one page",
            "Leave segments= out, or use layout='fragment'.",
        )
    if request.segments < 1:
        raise InvalidRequestError(
            f"segments={request.segments} makes no index", "Ask for one segment or more."
        )
    if kind.whole_table and request.segments > 1:
        raise UnsupportedError(
            f"Kind {kind.name!r} with the metric 'dot' is right only as one segment over the whole table",
            "Leave segments= out, or use ivf_rq or ivf_flat.",
        )
    if kind.single_segment and request.segments > 1:
        raise UnsupportedError(
            f"Kind {kind.name!r} is right only as one segment: Lance has no shared bounds for its quantizer",
            "Leave segments= out, or use ivf_pq, ivf_rq or ivf_flat.",
        )


def _require_name(name: str, request: IndexRequest, *, exists: bool) -> None:
    if (
        not name
        or len(name) > _NAME_MAX
        or "/" in name
        or not name.isprintable()
        or name.startswith(SYSTEM_INDEX_PREFIX)
    ):
        raise InvalidRequestError(
            f"{name!r} cannot be the name of an index",
            f"Pass name= with 1 to {_NAME_MAX} printable characters without '/', not starting with {SYSTEM_INDEX_PREFIX!r}.",
        )
    if exists and not request.replace and not request.if_not_exists:
        raise InvalidRequestError(
            f"An index named {name!r} already exists",
            "Pass replace=True to build it anew, if_not_exists=True to keep it, or another name=.",
        )


def _require_rows(snapshot: TableSnapshot, request: IndexRequest) -> None:
    if snapshot.rows == 0 and request.train:
        raise InvalidRequestError(
            f"Table {snapshot.uri} has no rows to index",
            "Append rows first, or pass train=False to create the empty index now.",
        )


def _split_model(
    kind: AnyKind, column: Column, parameters: dict[str, Any]
) -> tuple[dict[str, Any], VectorModel | None]:
    if isinstance(kind, PluginKind) or kind.family != "vector":
        return parameters, None
    plain, given = take_model(parameters)
    return plain, None if given is None else check_model(given, column, plain)


def _fingerprint(spec: IndexSpec, request: IndexRequest, given: VectorModel | None) -> str:
    """Name what is built, not how: an equal call finds the segments an earlier one finished."""
    asked = [
        spec.name,
        spec.kind,
        [[column.field_id, list(column.names), str(column.type)] for column in spec.columns],
        spec.parameters_json,
        request.train,
        *([[key.path, str(key.type)] for key in spec.keys]),
        *([[column.path for column in spec.kept]] if spec.kept else []),
    ]
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode())
    if given is not None:
        digest.update(given.to_bytes())
    return digest.hexdigest()
