"""Answers which kinds of our own and of others there are, and loads one when it is needed.

Kinds announce themselves as entry points of the group ``lancewright.kinds``. Their names are read from the metadata of what is
installed, without importing any of it; a kind that cannot be imported is a reason in an explanation, not a crash.
"""

from __future__ import annotations

import enum
import importlib
import threading
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.kinds.contract import API, IndexKind
from lancewright.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lancewright.model.segment_details import SegmentDetails

GROUP = "lancewright.kinds"
OURS = "lancewright"
_BUILT_IN = {
    "composite": "lancewright.kinds.composite.kind:CompositeKind",
    "hnsw": "lancewright.kinds.hnsw.kind:HnswKind",
    "interval": "lancewright.kinds.interval.kind:IntervalKind",
    "key": "lancewright.kinds.key.kind:KeyKind",
    "spatial": "lancewright.kinds.spatial.kind:SpatialKind",
}


class Trouble(enum.StrEnum):
    """Why a kind, or a segment of it, cannot be used here."""

    NO_PLUGIN = "NO_PLUGIN"
    PLUGIN_IMPORT_FAILED = "PLUGIN_IMPORT_FAILED"
    API_MISMATCH = "API_MISMATCH"
    FORMAT_TOO_NEW = "FORMAT_TOO_NEW"
    FORMAT_OLD_REBUILD = "FORMAT_OLD_REBUILD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """A kind that cannot be used, why, and what to do."""

    trouble: Trouble
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRef:
    """Where a kind comes from: ``module:Class``, and the distribution and version that brought it. Travels to executors."""

    name: str
    target: str
    distribution: str
    version: str

    @property
    def text(self) -> str:
        """The distribution and its version."""
        return f"{self.distribution} {self.version}"


class Plugins:
    """The kinds of one process."""

    def __init__(self, built_in: dict[str, str] | None = None) -> None:
        """Know the kinds that come with this package; look for others when first asked."""
        given = _BUILT_IN if built_in is None else built_in
        self._built_in = {
            name: PluginRef(name=name, target=target, distribution=OURS, version=__version__)
            for name, target in given.items()
        }
        self._registered: dict[str, tuple[PluginRef, type[IndexKind]]] = {}
        self._discovered: dict[str, tuple[PluginRef, ...]] | None = None
        self._lock = threading.Lock()

    def names(self) -> tuple[str, ...]:
        """Every name there is, imported or not."""
        found = {**self._built_in, **self._find(), **self._registered}
        return tuple(sorted(found))

    def ref(self, name: str) -> PluginRef | None:
        """Where the kind of this name comes from; raises when two distributions claim it."""
        if name in self._registered:
            return self._registered[name][0]
        claims = self._find().get(name, ())
        if name in self._built_in:
            claims = (self._built_in[name], *claims)
        if len(claims) > 1:
            listing = ", ".join(claim.text for claim in claims)
            raise InvalidRequestError(
                f"Several distributions bring an index kind {name!r}: {listing}",
                "Uninstall all but one of them.",
            )
        return claims[0] if claims else None

    def register(self, kind: type[IndexKind], *, replace: bool = False) -> None:
        """Add a kind for this process; ``replace`` allows a name that is there already."""
        problem = _check_class(kind, None)
        if problem is not None:
            raise InvalidRequestError(problem, "See the guide on writing a kind.")
        known = kind.name in self._registered or kind.name in self._built_in or kind.name in self._find()
        if known and not replace:
            raise InvalidRequestError(
                f"There is an index kind {kind.name!r} already",
                "Give the class another name, or pass replace=True.",
            )
        ref = PluginRef(
            name=kind.name,
            target=f"{kind.__module__}:{kind.__qualname__}",
            distribution="registered",
            version=f"format {kind.writes}",
        )
        with self._lock:
            self._registered[kind.name] = (ref, kind)

    def unregister(self, name: str) -> None:
        """Take a registered kind away again."""
        with self._lock:
            self._registered.pop(name, None)

    def load(self, name: str) -> IndexKind | Unusable:
        """The kind of this name, imported now if need be, or why it cannot be used."""
        if name in self._registered:
            return _instance(self._registered[name][1], name)
        try:
            ref = self.ref(name)
        except InvalidRequestError as error:
            return Unusable(trouble=Trouble.NO_PLUGIN, problem=error.problem, remedy=error.remedy)
        if ref is None:
            return Unusable(
                trouble=Trouble.NO_PLUGIN,
                problem=f"no kind {name!r} is installed",
                remedy=f"Install the package that brings kind {name!r}.",
            )
        return _import(ref)

    def load_ref(self, ref: PluginRef) -> IndexKind:
        """On an executor: the very kind the driver has; raises UnsupportedError when this process has another or none."""
        own = self.ref(ref.name)
        loaded = self.load(ref.name) if own is not None else _import(ref)
        if isinstance(loaded, Unusable):
            raise UnsupportedError(
                f"Index kind {ref.name!r} cannot be used on this worker: {loaded.problem}",
                "Install it on every executor, or ship it with spark.submit.pyFiles.",
            )
        if own is not None and own != ref:
            raise UnsupportedError(
                f"This worker has kind {ref.name!r} of {own.text}, the driver of {ref.text}",
                "Install the same version on the driver and on every executor.",
            )
        return loaded

    def _find(self) -> dict[str, tuple[PluginRef, ...]]:
        if self._discovered is None:
            found: dict[str, list[PluginRef]] = {}
            for entry in _entries():
                refs = found.setdefault(entry.name, [])
                ref = _ref_of(entry)
                if ref not in refs:  # a path that is listed twice shows its distributions twice
                    refs.append(ref)
            self._discovered = {name: tuple(refs) for name, refs in found.items()}
        return self._discovered


PLUGINS = Plugins()


def register_kind(kind: type[IndexKind], *, replace: bool = False) -> None:
    """Make a kind known in this process, for notebooks and tests. An installed package announces its kinds by itself.

    Tasks on executors import it by module and name, so it cannot live in a notebook cell when Spark builds it.
    """
    PLUGINS.register(kind, replace=replace)


def judge_segment(kind: IndexKind, details: SegmentDetails) -> Unusable | None:
    """Say why this kind cannot read a segment, or None when it can. A kind has no say in it."""
    if details.format in kind.reads:
        return None
    if details.format > max(kind.reads, default=0):
        return Unusable(
            trouble=Trouble.FORMAT_TOO_NEW,
            problem=f"it has format {details.format}, written by {details.plugin}; "
            f"the newest that kind {kind.name!r} reads here is {max(kind.reads, default=0)}",
            remedy=f"Upgrade what brings kind {kind.name!r}.",
        )
    return Unusable(
        trouble=Trouble.FORMAT_OLD_REBUILD,
        problem=f"it has format {details.format}, which kind {kind.name!r} no longer reads",
        remedy="Rebuild the index.",
    )


def _entries() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


def _ref_of(entry: EntryPoint) -> PluginRef:
    return PluginRef(
        name=entry.name,
        target=entry.value,
        distribution=entry.dist.name if entry.dist is not None else "an unnamed distribution",
        version=entry.dist.version if entry.dist is not None else "unknown",
    )


def _import(ref: PluginRef) -> IndexKind | Unusable:
    module, _, attribute = ref.target.partition(":")
    try:
        found: object = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except Exception as error:  # noqa: BLE001 - whatever a module does when it is imported
        return _failed(ref, f"importing {ref.target} failed: {type(error).__name__}: {error}")
    return _instance(found, ref.name)


def _instance(found: object, name: str) -> IndexKind | Unusable:
    problem = _check_class(found, name)
    if problem is not None or not isinstance(found, type):
        return Unusable(
            trouble=Trouble.PLUGIN_IMPORT_FAILED,
            problem=problem or "",
            remedy="Mend or reinstall its package.",
        )
    kind: type[IndexKind] = found
    major, minor = kind.api
    if major != API[0] or minor > API[1]:
        return Unusable(
            trouble=Trouble.API_MISMATCH,
            problem=f"kind {name!r} was written for version {major}.{minor} of the interface, "
            f"this release has {API[0]}.{API[1]}",
            remedy="Install a release of the kind, or of lancewright, that fits the other.",
        )
    return kind()


def _check_class(found: object, name: str | None) -> str | None:
    if not isinstance(found, type) or not issubclass(found, IndexKind):
        return f"{found!r} is no subclass of lancewright.kinds.contract.IndexKind"
    missing: Collection[str] = getattr(found, "__abstractmethods__", ())
    if missing:
        return f"{found.__qualname__} lacks {', '.join(sorted(missing))}"
    own = getattr(found, "name", None)
    if not isinstance(own, str) or not own.replace("_", "").isalnum() or own != own.lower():
        return f"{found.__qualname__}.name is {own!r}; it is small letters, digits and underscores"
    if name is not None and own != name:
        return f"{found.__qualname__}.name is {own!r}, and it is announced as {name!r}"
    if found.writes not in found.reads:
        return f"{found.__qualname__} writes format {found.writes} and does not read it"
    return None


def _failed(ref: PluginRef, problem: str) -> Unusable:
    return Unusable(
        trouble=Trouble.PLUGIN_IMPORT_FAILED,
        problem=problem,
        remedy=f"Mend or reinstall {ref.distribution}.",
    )
