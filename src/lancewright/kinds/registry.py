"""Answers which index kinds there are: Lance's own, ours, and those of other packages.

Which manifest entries can be used is ``model.compatibility`` and ``plugins.judge_segment``.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, TypeAlias

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.kinds.lance_native import scalar, text, vector
from lancewright.kinds.lance_native.definition import NativeKind
from lancewright.kinds.plugin_kind import PluginKind
from lancewright.kinds.plugins import PLUGINS, Unusable
from lancewright.model.vector_details import vector_metric

if TYPE_CHECKING:
    from lancewright.kinds.contract import IndexKind
    from lancewright.model.index import IndexState

_KINDS = (*scalar.KINDS, *text.KINDS, *vector.KINDS)
_BY_NAME = {name: kind for kind in _KINDS for name in (kind.name, *kind.aliases)}

AnyKind: TypeAlias = NativeKind | PluginKind


def list_kinds() -> tuple[NativeKind, ...]:
    """Every kind that Lance builds: scalar kinds first, then text, then vector."""
    return _KINDS


def list_plugin_kinds() -> tuple[PluginKind, ...]:
    """Every other kind; one that cannot be used says so instead of what it is for."""
    found = []
    for name in PLUGINS.names():
        loaded = PLUGINS.load(name)
        ref = PLUGINS.ref(name) if not isinstance(loaded, Unusable) else None
        if ref is not None and not isinstance(loaded, Unusable):
            found.append(PluginKind(name=name, ref=ref, doc=loaded.doc))
    return tuple(found)


def find_kind(name: str) -> NativeKind:
    """Lance's kind of this name or alias, ignoring case; raises InvalidRequestError with close names."""
    kind = _BY_NAME.get(_plain(name))
    if kind is not None:
        return kind
    raise _unknown(name)


def find_any_kind(name: str) -> AnyKind:
    """The kind of this name, whoever brings it; raises with close names, or with why it cannot be used."""
    plain = _plain(name)
    native = _BY_NAME.get(plain)
    if native is not None:
        return native
    ref = PLUGINS.ref(plain)
    if ref is None:
        raise _unknown(name)
    implementation = require_plugin(plain)
    return PluginKind(name=plain, ref=ref, doc=implementation.doc, rows_max=implementation.rows_max)


def require_plugin(name: str) -> IndexKind:
    """The implementation of a kind that is not Lance's; raises UnsupportedError when it cannot be used."""
    loaded = PLUGINS.load(name)
    if isinstance(loaded, Unusable):
        raise UnsupportedError(f"Index kind {name!r} cannot be used: {loaded.problem}", loaded.remedy)
    return loaded


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_")


def _unknown(name: str) -> InvalidRequestError:
    names = [*(kind.name for kind in _KINDS), *PLUGINS.names()]
    close = difflib.get_close_matches(name.lower(), [*_BY_NAME, *names], n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return InvalidRequestError(
        f"There is no index kind {name!r}", f"{hint}The kinds are: {', '.join(names)}."
    )


def native_kind(name: str) -> NativeKind | None:
    """The kind of Lance's that an index is said to be of, or None when Lance has none of this name."""
    return _BY_NAME.get(name)


def native_kind_of(index: IndexState) -> NativeKind | None:
    """The same of an index with what its segments say of its parameters, which may make one segment of several wrong."""
    kind = native_kind(index.kind)
    if kind is None or kind.family != "vector" or not index.segments:
        return kind
    return kind.settled({"metric": vector_metric(index.segments[0].details)})


def require_native(kind: AnyKind) -> NativeKind:
    """A kind of Lance's; raises UnsupportedError for any other."""
    if isinstance(kind, PluginKind):
        raise UnsupportedError(
            f"Index kind {kind.name!r} is not maintained this way", "Build the index again with replace=True."
        )
    return kind
