"""Says in one line what a verb did, from its receipt, what the budget did not reach, and what needs somebody's attention. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewright.maintain.catch_up import CatchUpReceipt
from lancewright.maintain.cleanup import CleanupReceipt
from lancewright.maintain.compact import CompactReceipt
from lancewright.maintain.health import Health
from lancewright.maintain.merge import MergeReceipt
from lancewright.maintain.refresh import RefreshReceipt

if TYPE_CHECKING:
    from typing import TypeAlias

    AnyReceipt: TypeAlias = (
        Health | CompactReceipt | CatchUpReceipt | RefreshReceipt | MergeReceipt | CleanupReceipt
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a verb did."""

    did_something: bool
    told: str
    put_off: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def tell(receipt: AnyReceipt) -> Done:
    """What a receipt comes to."""
    match receipt:
        case Health():
            return _tell_health(receipt)
        case CompactReceipt():
            return _tell_compact(receipt)
        case CatchUpReceipt():
            return _tell_catch_up(receipt)
        case RefreshReceipt():
            return _tell_refresh(receipt)
        case MergeReceipt():
            return _tell_merge(receipt)
        case CleanupReceipt():
            return _tell_cleanup(receipt)


def _tell_health(health: Health) -> Done:
    verbs = ", ".join(advice.verb for advice in health.advice)
    # What no verb of this run mends.
    problems = (
        f"{', '.join(advice.indexes)}: {advice.reason}"
        for advice in health.advice
        if advice.verb == "create_index"
    )
    return Done(
        did_something=bool(health.advice),
        told=f"advises {verbs}" if verbs else "nothing is wrong with the indexes",
        problems=tuple(problems),
    )


def _tell_compact(receipt: CompactReceipt) -> Done:
    caught_up = receipt.caught_up.put_off if receipt.caught_up is not None else ()
    refreshed = receipt.refreshed.put_off if receipt.refreshed is not None else ()
    groups = (f"{receipt.put_off} groups of fragments",) if receipt.put_off else ()
    lost = (f"other writers changed {receipt.lost} groups again and again",) if receipt.lost else ()
    return Done(
        did_something=receipt.rounds > 0 or receipt.refreshed is not None,
        told=f"{receipt.fragments_before:,} fragments became {receipt.fragments_after:,}, remap {receipt.remap}",
        put_off=(*groups, *sorted({*caught_up, *refreshed})),
        problems=lost,
    )


def _tell_catch_up(receipt: CatchUpReceipt) -> Done:
    count = sum(index.rewritten for index in receipt.indexes)
    waiting = sum(index.waiting for index in receipt.indexes)
    told = f"{count:,} segments written anew" + (f", {waiting:,} still wait" if waiting else "")
    return Done(did_something=bool(count) or receipt.trimmed, told=told, put_off=receipt.put_off)


def _tell_refresh(receipt: RefreshReceipt) -> Done:
    busy = [index for index in receipt.indexes if not index.is_current and index.problem is None]
    rows = sum(index.rows for index in busy)
    return Done(
        did_something=bool(busy),
        told=f"{rows:,} rows indexed, in {len(busy):,} indexes" if busy else "every index was current",
        put_off=receipt.put_off,
        # Health tells of indexes whose kind cannot be read here, if rows are scanned for want of them.
        problems=tuple(
            f"{index.name}: {index.problem}" for index in receipt.indexes if index.problem and index.is_kept
        ),
    )


def _tell_merge(receipt: MergeReceipt) -> Done:
    before = sum(index.segments_before for index in receipt.indexes if index.is_due)
    after = sum(index.segments_after for index in receipt.indexes if index.is_due)
    return Done(
        did_something=receipt.rounds > 0,
        told=f"{before:,} segments became {after:,}" if before else "nothing was due",
        put_off=receipt.put_off,
        problems=tuple(f"{index.name}: {index.problem}" for index in receipt.indexes if index.problem),
    )


def _tell_cleanup(receipt: CleanupReceipt) -> Done:
    return Done(
        did_something=bool(receipt.files or receipt.versions),
        told=f"{len(receipt.versions):,} versions, {len(receipt.files):,} files, {receipt.size_bytes:,} bytes removed",
        problems=tuple(f"{path}: the storage would not delete it" for path in receipt.failed),
    )
