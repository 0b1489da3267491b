"""Writes syntax back as SQL, with the table's names in it, for what only Lance can evaluate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lancewright.errors import InvalidRequestError
from lancewright.model.predicate import syntax as syn
from lancewright.model.predicate.constants import find_constant
from lancewright.model.predicate.functions import canonical_name
from lancewright.model.predicate.places import expand
from lancewright.model.predicate.printing import lance_pattern, literal_sql, quote_text
from lancewright.model.predicate.tree import Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from lancewright.model.columns import Column
    from lancewright.model.predicate.syntax import Syntax


def render(node: Syntax, find: Callable[[tuple[str, ...]], Column], seen: dict[str, None]) -> str:
    """The text of an expression, in parentheses where it needs them; adds the columns it reads to ``seen``."""

    def write(part: Syntax) -> str:
        return render(part, find, seen)

    match node:
        case syn.Name(names=names):
            path = find(names).path
            seen[path] = None
            return path
        case syn.Number() | syn.Text() | syn.Value():
            return _constant(node)
        case syn.Minus(child=child):
            return f"(- {write(child)})"
        case syn.Negation(child=child, fused=True):
            return _test(child, write, negated="NOT ")
        case syn.Negation(child=child):
            return f"(NOT {write(child)})"
        case syn.Cast(child=child, type_sql=type_sql, safe=safe):
            return f"{'TRY_CAST' if safe else 'CAST'}({write(child)} AS {type_sql})"
        case syn.Chain(word=word, children=children):
            return "(" + f" {word} ".join(map(write, children)) + ")"
        case syn.Binary(sign=sign, left=left, right=right):
            return f"({write(left)} {sign} {write(right)})"
        case syn.Function(name="st_dwithin" | "st_distancesphere"):
            return write(expand(node))
        case syn.Function(name="st_point" | "st_makepoint" as name, arguments=(x, y)) if (
            find_constant(y) is None
        ):
            # Lance 14 passes over a NULL in y, and takes whatever number lies there.
            return f"{name}(nvl2({write(y)}, {write(x)}, NULL), {write(y)})"
        case syn.Function(name=name, arguments=arguments):
            canonical_name(name)
            return f"{name}({', '.join(map(write, arguments))})"
        case syn.Array(items=items):
            return f"[{', '.join(map(write, items))}]"
        case syn.Item(child=child, index=index):
            return f"{write(child)}[{write(index)}]"
        case _:
            return _test(node, write)


def _test(node: Syntax, write: Callable[[Syntax], str], negated: str = "") -> str:
    match node:
        case syn.Distinct(left=left, right=right):
            return f"({write(left)} IS {'' if negated else 'NOT '}DISTINCT FROM ({write(right)}))"
        case syn.Test(child=child, word="UNKNOWN"):
            return f"({write(child)} IS {negated}NULL)"
        case syn.Test(child=child, word=word):
            return f"({write(child)} IS {negated}{word})"
        case syn.In(child=child, items=items):
            return f"({write(child)} {negated}IN ({', '.join(map(write, items))}))"
        case syn.Between(child=child, low=low, high=high):
            return f"({write(child)} {negated}BETWEEN {write(low)} AND {write(high)})"
        case syn.Matches(child=child, pattern=syn.Text(value=text), escape=escape, ignore_case=ignore_case):
            word = "ILIKE" if ignore_case else "LIKE"
            return f"({write(child)} {negated}{word} {quote_text(lance_pattern(text, escape))})"
        case _:
            raise InvalidRequestError("LIKE takes a pattern that is a string", "Write LIKE 'abc%'.")


def _constant(node: syn.Number | syn.Text | syn.Value) -> str:
    match node:
        case syn.Number(text=text):
            return text
        case syn.Text(value=text):
            return quote_text(text)
        case syn.Value(value=None):
            return "NULL"
        case syn.Value(value=bytes(value)):
            return f"X'{value.hex()}'"
    known = find_constant(node)
    if known is None or known.is_null:
        return "NULL"
    if known.type is None:
        return f"{known.value}"
    return literal_sql(Literal(value=known.value, type=known.type or pa.null()))
