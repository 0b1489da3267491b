"""Reads what other writers committed between two versions, as far as a build has to know it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyroaring import FrozenBitMap

from lancewright.errors import NotFoundError
from lancewright.model.snapshot import REWRITTEN
from lancewright.table.conflict import Rewrite
from lancewright.table.manifest_messages import Manifest, Transaction
from lancewright.table.opening import open_dataset
from lancewright.table.snapshot_reader import manifest_names, read_block

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lancewright.table.location import TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Compactions in commit order, whether an update moved rows to new fragments, whether values changed in place.

    ``rewritten_fields`` are the fields whose values changed in place; None when a writer did not say which.
    Not ``complete`` when the table was replaced or put back, or when a version was cleaned up: then nothing is known.
    """

    rewrites: tuple[Rewrite, ...] = ()
    rows_moved: bool = False
    columns_rewritten: bool = False
    complete: bool = True
    rewritten_fields: frozenset[int] | None = frozenset()


_UNKNOWN = History(rows_moved=True, columns_rewritten=True, complete=False, rewritten_fields=None)
# Each version costs two small requests; past this many, knowing nothing is cheaper, and only costs work done again.
VERSIONS_MAX = 1000
_REQUESTS_AT_ONCE = 16


def read_history(table: TableRef, after: int, until: int, versions_max: int = VERSIONS_MAX) -> History:
    """Read the transactions of versions ``after + 1`` to ``until``; more than ``versions_max`` are not read."""
    if until - after > versions_max:
        return _UNKNOWN
    versions = range(after + 1, until + 1)
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        transactions = list(pool.map(lambda version: _read_transaction(table.pinned(version)), versions))
    # No operation that is known: the table was overwritten or put back, or a later Lance wrote it.
    if any(transaction is None or not transaction.ListFields() for transaction in transactions):
        return _UNKNOWN
    return History(
        rewrites=tuple(_rewrite(group) for one in transactions for group in one.rewrite.groups),
        rows_moved=any(one.update.new_fragments for one in transactions),
        columns_rewritten=any(_rewrites_columns(one) for one in transactions),
        rewritten_fields=_together(_rewritten_fields(one) for one in transactions),
    )


def _read_transaction(table: TableRef) -> Any:  # Any: protobuf makes these classes at run time
    """The transaction as the manifest holds it; pylance cannot show one that remapped an index (14.0.2: TypeError)."""
    try:
        dataset = open_dataset(table)
    except NotFoundError:  # cleaned up
        return None
    manifest = Manifest.FromString(dataset._ds.serialized_manifest())  # noqa: SLF001 - pylance has no public way to it
    session: Any = dataset.new_file_session()  # type: ignore[no-untyped-call] # pylance leaves it untyped
    path = next((name for name in manifest_names(manifest.version) if session.contains(name)), None)
    if path is None or not manifest.HasField("transaction_section"):
        return None
    return Transaction.FromString(read_block(session, path, manifest.transaction_section))


def _rewrites_columns(transaction: Any) -> bool:  # Any: as above
    update = transaction.update
    # Some writers leave out which fields they changed; then nothing but the files is new.
    in_place = bool(update.fields_modified or (update.updated_fragments and not update.new_fragments))
    return in_place or transaction.HasField("data_replacement") or transaction.HasField("merge")


def _rewritten_fields(transaction: Any) -> frozenset[int] | None:  # Any: as above
    if not _rewrites_columns(transaction):
        return frozenset()
    if transaction.update.fields_modified:
        return frozenset(transaction.update.fields_modified)
    if transaction.HasField("data_replacement"):
        replacements = transaction.data_replacement.replacements
        return frozenset(field for one in replacements for field in one.new_file.fields)
    if transaction.HasField("merge"):
        # Columns were added, unless a fragment shows that one took another's place.
        marked = any(
            REWRITTEN in file.fields for fragment in transaction.merge.fragments for file in fragment.files
        )
        return None if marked else frozenset()
    return None


def _together(fields: Iterable[frozenset[int] | None]) -> frozenset[int] | None:
    found: frozenset[int] = frozenset()
    for one in fields:
        if one is None:
            return None
        found |= one
    return found


def _rewrite(group: Any) -> Rewrite:  # Any: as above
    return Rewrite(
        old=FrozenBitMap(fragment.id for fragment in group.old_fragments),
        new=FrozenBitMap(fragment.id for fragment in group.new_fragments),
    )
