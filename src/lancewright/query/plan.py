"""What a query plan is: parts of the table, and for each how its rows are found. Frozen values, nothing is read here."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pyroaring import FrozenBitMap

    from lancewright.kinds.contract import Probe as LookupProbe
    from lancewright.model.predicate import Predicate


class Reason(enum.StrEnum):
    """Why an index is used, or why it is not."""

    USED = "USED"
    USED_IN_TASKS = "USED_IN_TASKS"
    INEXACT_PREFILTER = "INEXACT_PREFILTER"
    NO_PLUGIN = "NO_PLUGIN"
    PLUGIN_IMPORT_FAILED = "PLUGIN_IMPORT_FAILED"
    PLUGIN_FAILED = "PLUGIN_FAILED"
    API_MISMATCH = "API_MISMATCH"
    FORMAT_TOO_NEW = "FORMAT_TOO_NEW"
    FORMAT_OLD_REBUILD = "FORMAT_OLD_REBUILD"
    BROKEN_SEGMENT = "BROKEN_SEGMENT"
    NOT_BUILT = "NOT_BUILT"
    NO_COVERAGE = "NO_COVERAGE"
    COLUMN_NOT_ASKED = "COLUMN_NOT_ASKED"
    NO_LEADING_KEY = "NO_LEADING_KEY"
    OPERATOR_UNSUPPORTED = "OPERATOR_UNSUPPORTED"
    LITERAL_NOT_CASTABLE = "LITERAL_NOT_CASTABLE"
    INEXACT_UNDER_NOT = "INEXACT_UNDER_NOT"
    OR_BRANCH_UNINDEXED = "OR_BRANCH_UNINDEXED"
    STALE = "STALE"
    NOT_TRUSTED = "NOT_TRUSTED"
    TOO_MANY_ROWS = "TOO_MANY_ROWS"
    CHEAPER_INDEX = "CHEAPER_INDEX"
    OTHER_INDEX_CHOSEN = "OTHER_INDEX_CHOSEN"
    DISABLED = "DISABLED"


# Something is wrong with the index or with what is installed, whatever is asked.
UNUSABLE = frozenset(
    {
        Reason.NO_PLUGIN,
        Reason.PLUGIN_IMPORT_FAILED,
        Reason.PLUGIN_FAILED,
        Reason.API_MISMATCH,
        Reason.FORMAT_TOO_NEW,
        Reason.FORMAT_OLD_REBUILD,
        Reason.BROKEN_SEGMENT,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What asking an index is expected to give and to cost.

    ``runs``: into how many runs of neighbours the rows fall. ``segments``: how many of its segments may hold any of them.
    """

    rows: float
    runs: float
    index_bytes: float = 0.0
    pages: float = 0.0
    segments: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeProbe:
    """Lance answers a whole condition from its indexes, reading index pages only."""

    predicate: Predicate
    indexes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneProbe:
    """The zones of a zone map that may hold a condition; each zone is a run of rows."""

    predicate: Predicate
    index: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KindProbe:
    """A lookup in an index whose kind is not Lance's: by the kind's own ``probe``, or of the NULLs of the one key in ``keys``.

    ``keys`` are those the probe asks for. ``negated`` asks for the rows that are not TRUE and not NULL.
    """

    predicate: Predicate
    index: str
    keys: tuple[int, ...]
    probe: LookupProbe | None
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """Rows that all parts name."""

    parts: tuple[Probe, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Either:
    """Rows that any part names."""

    parts: tuple[Probe, ...]


Probe: TypeAlias = NativeProbe | ZoneProbe | KindProbe | Both | Either


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Fragments whose rows are found in the same way.

    With a probe: its rows are read and ``residual`` is checked on them. Without: the fragments are scanned and
    ``residual`` is the whole condition; ``native_indexes`` says that Lance may use its indexes while it scans.
    ``covered_by``: the index whose files have all that is asked of the rows.
    """

    fragments: FrozenBitMap
    rows: int
    probe: Probe | None = None
    residual: Predicate | None = None
    estimate: Estimate | None = None
    native_indexes: bool = False
    covered_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexNote:
    """Whether one index is used for a query, and why. ``skipped``: segments that are set aside, beside ``segments``."""

    index: str
    kind: str
    reason: Reason
    explanation: str
    condition: str = ""
    segments: int = 0
    skipped: int = 0
    estimate: Estimate | None = None

    @property
    def used(self) -> bool:
        """True when the index helps."""
        return self.reason in {Reason.USED, Reason.USED_IN_TASKS, Reason.INEXACT_PREFILTER}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """How a filter is answered on one version of a table."""

    table: str
    version: int
    table_rows: int
    table_fragments: int
    predicate: Predicate | None
    portions: tuple[Portion, ...]
    notes: tuple[IndexNote, ...] = ()

    @property
    def probed(self) -> tuple[Portion, ...]:
        """The portions that an index answers."""
        return tuple(portion for portion in self.portions if portion.probe is not None)

    @property
    def scanned(self) -> tuple[Portion, ...]:
        """The portions that are scanned."""
        return tuple(portion for portion in self.portions if portion.probe is None)


def indexes_of(probe: Probe) -> frozenset[str]:
    """The names of all indexes a probe asks."""
    match probe:
        case NativeProbe(indexes=indexes):
            return indexes
        case ZoneProbe(index=index) | KindProbe(index=index):
            return frozenset({index})
        case Both(parts=parts) | Either(parts=parts):
            return frozenset().union(*map(indexes_of, parts))
