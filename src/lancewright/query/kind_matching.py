"""Answers what an index of a kind that is not Lance's answers of the parts of an AND. Reads no file.

A kind is offered all parts at once, as atoms: positive conditions on its keys. It never sees a NULL, a NOT or an OR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.errors import LancewrightError
from lancewright.kinds.contract import Answer, Atom, Operator, Probe
from lancewright.kinds.segment.calling import calling
from lancewright.model.predicate import Call, Comparison, InList, IsNull, Literal, Not, columns_of, conjoin
from lancewright.model.predicate import Operator as Sign
from lancewright.query.answering import is_prefix, prefix_of
from lancewright.query.plan import Estimate, KindProbe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lancewright.kinds.contract import Spec
    from lancewright.model.predicate import Predicate
    from lancewright.query.kind_index import KindIndex

_OPERATORS: Mapping[Sign, Operator] = {
    Sign.EQUAL: Operator.EQUAL,
    Sign.LESS: Operator.LESS,
    Sign.LESS_EQUAL: Operator.LESS_EQUAL,
    Sign.GREATER: Operator.GREATER,
    Sign.GREATER_EQUAL: Operator.GREATER_EQUAL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What an index answers of some parts, given by their places; ``settled`` says that nothing is left to check.

    ``estimate`` is for all that the index covers.
    """

    parts: frozenset[int]
    probe: KindProbe
    settled: bool
    estimate: Estimate | None


def find_offers(index: KindIndex, parts: Sequence[Predicate]) -> tuple[Offer, ...]:
    """Everything the index offers. A kind that fails offers nothing; ``find_failure`` says how it fails."""
    try:
        return tuple(_offers(index, parts))
    except LancewrightError:
        return ()


def find_failure(index: KindIndex, parts: Sequence[Predicate]) -> str | None:
    """How the kind fails to plan, if it does."""
    try:
        tuple(_offers(index, parts))
    except LancewrightError as error:
        return error.problem
    return None


def read_atom(  # noqa: PLR0911 - one case for each form of condition
    spec: Spec, columns: Sequence[str], part: Predicate
) -> Atom | None:
    """A condition as the kind sees it; None when it is not one, or its values are not of the key's type."""
    named = part.columns if isinstance(part, Call) else columns_of(part)
    if not named or any(name not in columns for name in named):
        return None
    keys = tuple(list(columns).index(name) for name in named)
    key = keys[0]
    type_ = spec.keys[key].type
    match part:
        case Comparison(operator=sign, literal=literal) if sign in _OPERATORS:
            return _atom(_OPERATORS[sign], key, (literal,), type_)
        case InList(literals=literals):
            return _atom(Operator.IN, key, literals, type_)
        case _ if is_prefix(part):
            if not (pa.types.is_string(type_) or pa.types.is_large_string(type_)):
                return None
            return Atom(operator=Operator.PREFIX, keys=(key,), values=(pa.scalar(prefix_of(part), type_),))
        case Call(operator=None, function=function, arguments=arguments):
            literals = tuple(argument for argument in arguments if isinstance(argument, Literal))
            if len(literals) < len(arguments):
                return None
            values = tuple(literal.scalar for literal in literals)
            return Atom(operator=Operator.FUNCTION, keys=keys, values=values, function=function)
        case _:
            return None


def _atom(operator: Operator, key: int, literals: Sequence[Literal], type_: pa.DataType) -> Atom | None:
    if any(literal.type != type_ for literal in literals):
        return None
    return Atom(operator=operator, keys=(key,), values=tuple(literal.scalar for literal in literals))


def _offers(index: KindIndex, parts: Sequence[Predicate]) -> Iterator[Offer]:
    atoms = {
        place: atom
        for place, part in enumerate(parts)
        if (atom := read_atom(index.spec, index.columns, part)) is not None
    }
    if atoms:
        yield from _offer_group(index, parts, atoms)
    for place, part in enumerate(parts):
        yield from _offer_nulls(index, place, part)
        yield from _offer_opposite(index, place, part)


def _offer_group(index: KindIndex, parts: Sequence[Predicate], atoms: Mapping[int, Atom]) -> Iterator[Offer]:
    places = list(atoms)
    probe = _plan(index, list(atoms.values()))
    if probe is None:
        return
    consumed = frozenset(places[number] for number in probe.consumed)
    keys = tuple(sorted({key for place in consumed for key in atoms[place].keys}))
    yield Offer(
        parts=consumed,
        probe=KindProbe(
            predicate=conjoin(parts[place] for place in sorted(consumed)),
            index=index.name,
            keys=keys,
            probe=probe,
        ),
        settled=probe.answer is Answer.EXACT and not index.names_unseen_rows(keys),
        estimate=_estimate(index, probe),
    )


def _offer_nulls(index: KindIndex, place: int, part: Predicate) -> Iterator[Offer]:
    """``IS NULL`` and its opposite, of any key and any kind: the framework knows the NULLs."""
    negated = isinstance(part, Not)
    inner = part.child if isinstance(part, Not) else part
    if not isinstance(inner, IsNull) or inner.column not in index.columns:
        return
    key = index.columns.index(inner.column)
    nulls = sum(segment.details.keys[key].nulls for segment in index.segments)
    rows = sum(segment.details.rows for segment in index.segments) - nulls if negated else nulls
    yield Offer(
        parts=frozenset({place}),
        probe=KindProbe(predicate=part, index=index.name, keys=(key,), probe=None, negated=negated),
        settled=True,
        estimate=Estimate(rows=float(rows), runs=float(rows), index_bytes=nulls / 8, pages=1.0),
    )


def _offer_opposite(index: KindIndex, place: int, part: Predicate) -> Iterator[Offer]:
    """Every row but those that are TRUE or NULL, where the kind names exactly those that are TRUE."""
    opposite = _opposite(part)
    atom = None if opposite is None else read_atom(index.spec, index.columns, opposite)
    probe = None if atom is None else _plan(index, [atom])
    if (
        atom is None
        or probe is None
        or probe.answer is not Answer.EXACT
        or index.names_unseen_rows(atom.keys)
    ):
        return
    asked = _estimate(index, probe)
    rows = sum(segment.details.rows for segment in index.segments)
    estimate = None
    if asked is not None:
        left = max(0.0, rows - asked.rows)
        estimate = Estimate(rows=left, runs=left, index_bytes=asked.index_bytes, pages=asked.pages)
    yield Offer(
        parts=frozenset({place}),
        probe=KindProbe(predicate=part, index=index.name, keys=atom.keys, probe=probe, negated=True),
        settled=True,
        estimate=estimate,
    )


def _opposite(part: Predicate) -> Predicate | None:
    match part:
        case Comparison(operator=Sign.NOT_EQUAL, column=column, literal=literal):
            return Comparison(column=column, operator=Sign.EQUAL, literal=literal)
        case Not(child=child) if not isinstance(child, IsNull):
            return child
        case _:
            return None


def _plan(index: KindIndex, atoms: Sequence[Atom]) -> Probe | None:
    with calling(index.kind, "plan"):
        probe = index.kind.plan(index.spec, atoms)
        if probe is None:
            return None
        if not probe.consumed or not probe.consumed <= set(range(len(atoms))):
            raise ValueError(f"{probe!r} does not answer some of {len(atoms)} atoms")
        return probe


def _estimate(index: KindIndex, probe: Probe) -> Estimate | None:
    """What asking all segments gives and costs; None when the kind does not know."""
    rows = size = 0.0
    asked = 0
    for segment in index.segments:
        details = segment.details
        with calling(index.kind, "cost"):
            if index.kind.skip(index.spec, probe, details.summary):
                continue
            cost = index.kind.cost(index.spec, probe, details.summary, details.rows)
        if cost is None:
            return None
        asked += 1
        rows += max(0.0, float(cost.rows))
        size += max(0.0, float(cost.bytes))
    return Estimate(rows=rows, runs=rows, index_bytes=size, pages=float(asked), segments=asked)
