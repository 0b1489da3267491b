"""What an index kind is: the classes an author of a kind implements and the values that go in and out.

A kind sees Arrow batches, NumPy arrays and a ``Store`` of files; never Spark, never Lance, never a commit. It numbers the
rows of its segment from 0, in the order of the table; what these numbers stand for, which of the rows are deleted or NULL, and
where rows go when the table is compacted is the business of the framework. The guide is ``docs/extending.md``.
"""

from __future__ import annotations

import array
import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Protocol, TypeAlias

import numpy as np
import pyroaring

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

API = (1, 0)
"""Version of this contract: the first number breaks kinds, the second only adds."""

SUMMARY_BYTES_MAX = 64 << 10
ROW_COLUMN = "_row"

RowNumbers: TypeAlias = pyroaring.BitMap


class Answer(enum.StrEnum):
    """How good an answer is: just the rows that are TRUE, or those and perhaps others."""

    EXACT = "exact"
    AT_MOST = "at_most"


class Nulls(enum.StrEnum):
    """Whether ``build`` is given rows in which a key is NULL.

    STRIP: only rows with all keys. A lookup that asks for some of the keys then also names, to be checked, the rows
    in which another key is NULL. KEEP: every row, and the kind stores its NULLs.
    """

    STRIP = "strip"
    KEEP = "keep"


class Operator(enum.StrEnum):
    """How an atom compares. ``PREFIX`` is ``LIKE 'text%'``; a function is an operator of its own, see ``Atom.function``."""

    EQUAL = "eq"
    LESS = "lt"
    LESS_EQUAL = "le"
    GREATER = "gt"
    GREATER_EQUAL = "ge"
    IN = "in"
    PREFIX = "prefix"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of an index: a column, or an expression over columns.

    ``type`` is the type its values come in: dictionaries decoded, extensions as what they hold.
    """

    name: str
    type: pa.DataType
    nullable: bool = True
    expression: str | None = None
    metadata: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What the user declared; stored with every segment. ``parameters`` are what ``validate`` returned, as JSON keeps them."""

    name: str
    kind: str
    keys: tuple[Key, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)  # values are the kind's own
    format: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """A condition on keys, given by their places, with values of the keys' own types that are never NULL.

    Floats are in Lance's order, a total one: -NaN, -inf, …, 0.0 (which -0.0 equals), …, inf, NaN; NaN equals itself.
    """

    operator: Operator
    keys: tuple[int, ...]
    values: tuple[pa.Scalar, ...]
    function: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What ``build`` is given: with or without the rows in which a key is NULL."""

    nulls: Nulls = Nulls.STRIP


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A planned lookup. ``consumed`` are the places, in the group given to ``plan``, of the atoms that it answers.

    Small and picklable; ``payload`` is the kind's own and ``text`` is shown by explain.
    """

    consumed: frozenset[int]
    answer: Answer
    payload: bytes
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProbe:
    """A planned ranked query, as ``Probe``. ``descending``: the greatest score is best. ``exact``: all of the best rows are found.

    ``needs_statistics``: every segment is asked for ``Reader.statistics`` before any is searched.
    """

    payload: bytes
    descending: bool
    exact: bool
    text: str = ""
    needs_statistics: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What ``build`` or ``merge`` says of the segment it wrote.

    ``unkeyed``: rows it could not key, which the framework adds to every answer, to be checked. ``summary``: at most
    64 KiB, kept where the planner reads it without opening a file.
    """

    keyed: int
    unkeyed: RowNumbers = field(default_factory=pyroaring.BitMap)
    summary: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """A segment given to ``merge``: its reader, and for each of its rows the new number, -1 for one to drop."""

    reader: Reader
    renumber: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hits:
    """Ranked rows of one segment, the best first, equal scores by row number. Scores are exact, also of a kind that is not."""

    rows: NDArray[np.uint32]
    scores: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a lookup in one segment is expected to name and to read."""

    rows: float
    bytes: float


class RangeFile(Protocol):
    """A file that is read in ranges. Every byte handed out was checked against the segment's header."""

    @property
    def size(self) -> int:
        """How many bytes it has."""
        ...

    def read(self, start: int, length: int) -> memoryview:
        """These bytes, all of them."""
        ...


class Store(Protocol):
    """The files of one segment. They are listed, sized and checksummed by the framework."""

    def create(self, name: str) -> BinaryIO:
        """Write a new file; it is finished when it is closed."""
        ...

    def open(self, name: str) -> RangeFile:
        """Read a file in ranges; nothing is read yet."""
        ...

    def local(self, name: str) -> str:
        """The path of a checked copy on this machine, for libraries that want one."""
        ...


class IndexKind(ABC):
    """One kind of index. An instance has no state: it is made anew wherever it is needed.

    A kind for filters has ``validate``, ``build``, ``plan`` and ``open``, and its reader ``lookup``; one that ranks has ``plan_search``
    and its reader ``search``, and its ``plan`` may always return None. The rest is optional.
    """

    name: ClassVar[str]
    api: ClassVar[tuple[int, int]] = API
    writes: ClassVar[int] = 1
    reads: ClassVar[frozenset[int]] = frozenset({1})
    doc: ClassVar[str] = ""
    looks_up_many: ClassVar[bool] = False
    """Whether its reader has ``lookup_many``."""
    rows_max: ClassVar[int] = 64_000_000
    """Rows that one segment is made for; they pass through the memory of one task."""

    @abstractmethod
    def validate(self, keys: Sequence[Key], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters with defaults filled in, as JSON keeps them; raise InvalidRequestError naming the fix."""

    def input(self, spec: Spec) -> Input:
        """Say what ``build`` wants to be given."""
        del spec
        return Input()

    @abstractmethod
    def build(self, spec: Spec, rows: Iterable[pa.RecordBatch], out: Store) -> Built:
        """Write one segment. Batches have columns ``_row`` (uint32, ascending) and ``k0``, ``k1``, …; there may be none."""

    def merge(self, spec: Spec, parts: Sequence[Part], out: Store) -> Built | None:
        """Write one segment from several, moving and dropping rows as told; None when it has to be built from the table."""
        del spec, parts, out
        return None

    @abstractmethod
    def plan(self, spec: Spec, group: Sequence[Atom]) -> Probe | None:
        """Offer to answer some of these atoms, all of which must be TRUE; None to answer none. Reads nothing."""

    def plan_search(self, spec: Spec, query: Mapping[str, Any]) -> SearchProbe | None:
        """Accept a ranked query addressed to this index, or None. Reads nothing.

        Scans with ``order_by`` ask ``{"order_by": [(key, descending), …], "atoms": [Atom, …]}``: the rows for which all atoms are
        TRUE, in this order. Other queries come from
        ``Table.search(query=…)``, in the kind's own words.
        """
        del spec, query
        return None

    def score(self, spec: Spec, probe: SearchProbe, rows: pa.RecordBatch) -> NDArray[np.float64]:
        """The scores of rows given by their keys (columns ``k0``, ``k1``, …), NaN for a row that has no rank.

        With it, rows outside the index are ranked one by one; without, a segment over them is built in memory for each search.
        """
        raise NotImplementedError

    def skip(self, spec: Spec, probe: Probe, summary: bytes) -> bool:
        """Say that a segment with this summary has no row for the probe. Must never be wrong."""
        del spec, probe, summary
        return False

    def cost(self, spec: Spec, probe: Probe, summary: bytes, rows: int) -> Cost | None:
        """Estimate a lookup in a segment of so many rows; None when nothing is known."""
        del spec, probe, summary, rows
        return None

    @abstractmethod
    def open(self, spec: Spec, store: Store) -> Reader:
        """Open one segment, reading little or nothing yet."""


class Reader(ABC):  # noqa: B024 - which of its methods a kind needs is said by what it plans
    """One open segment."""

    def lookup(self, probe: Probe) -> RowNumbers:
        """The rows for which every consumed atom is TRUE (EXACT), or these and perhaps others (AT_MOST)."""
        raise NotImplementedError

    def lookup_many(self, keys: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Equality for many keys at once (columns ``k0``, ``k1``, …): pairs of a place in ``keys`` and a row.

        Every row that is equal is among them; others may be, which are checked. A key with a NULL has no rows.
        """
        raise NotImplementedError

    def statistics(self, probe: SearchProbe) -> bytes:
        """This segment's share of what all segments must know before one can score."""
        del probe
        return b""

    def search(
        self, probe: SearchProbe, statistics: Sequence[bytes], k: int, allow: RowNumbers | None
    ) -> Hits:
        """The best ``k`` rows of those allowed; ``None`` allows all. As many as there are, however far down they rank."""
        raise NotImplementedError

    def memory_bytes(self) -> int:
        """Memory it holds besides what it has read from its store."""
        return 0

    def close(self) -> None:
        """Let go of files and memory."""
        return


def row_numbers(rows: NDArray[np.uint32]) -> RowNumbers:
    """A bitmap of rows in any order. From an ``array`` it is read as a buffer, 6 ns a row; from NumPy 40 ns."""
    return pyroaring.BitMap(array.array("I", np.ascontiguousarray(rows, dtype=np.uint32).tobytes()))
