"""Everything that depends on the release of pylance: version check, value conversion, error translation.

A new Lance release is met here and nowhere else.
"""

from __future__ import annotations

import importlib
import re
import struct
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import lance
from lance.commit import CommitConflictError
from pyroaring import FrozenBitMap

from lancewright.errors import (
    CorruptIndexError,
    InvalidRequestError,
    LancewrightError,
    NotFoundError,
    UnsupportedError,
)
from lancewright.model.index import Segment, SegmentFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lancewright.table.location import TableRef

LANCE_MAJOR_MIN = 14
_COUNT = struct.Struct("<I")

# ``lance.dataset`` the function hides the module of the same name.
_dataset_module: Any = importlib.import_module("lance.dataset")  # Any: pylance ships no types for Index

# Lance ends its messages with the places in its own source they came from.
_RUST_PLACE = re.compile(r",? ?/home/runner/\S+")
_NOT_FOUND = re.compile(
    r"was not found|not found: |No such file|Not a directory|NoSuchBucket|does not exist", re.IGNORECASE
)
# The words must be those of the store: a path or a column may be called "403" or "credentials".
_DENIED = re.compile(
    r"permission denied|access ?denied|operation not permitted|read-only file system"
    r"|(?:401|403) (?:unauthorized|forbidden)|unauthenticated|authenticationfailed|authorization(?:failure|permission)"
    r"|invalidaccesskeyid|signaturedoesnotmatch|expiredtoken|invalidtoken"
    r"|lacked (?:the necessary privileges|valid authentication)|provided credentials"
    r"|(?:failed|unable|could not|cannot) .{0,40}credentials|credentials? .{0,40}(?:not enabled|expired|invalid|missing)",
    re.IGNORECASE,
)
_UNREACHABLE = re.compile(
    r"error sending request|connection (?:refused|reset|closed)|dns error|failed to lookup address|timed out|deadline",
    re.IGNORECASE,
)
_DAMAGED = re.compile(
    r"corrupt|invalid magic|fill whole buffer|error parsing message|truncated|checksum|unexpected end|wire.?type"
    r"|decode|does not match the file|sufficient data|bytes expected",
    re.IGNORECASE,
)
_FILE_GONE = re.compile(r"not found: \S*data/\S+\.lance\b", re.IGNORECASE)
_NO_LANCE_FILE = re.compile(r"does not appear to be a Lance file", re.IGNORECASE)
_INVALID = re.compile(r"invalid user input|no object store provider", re.IGNORECASE)
# What stores put into the URL of a signed request.
_SIGNATURE = re.compile(
    r"([?&](?:sig|signature|token|access_token|awsaccesskeyid|x-(?:amz|goog)-(?:signature|credential|security-token))=)"
    r"[^&\s\"']+",
    re.IGNORECASE,
)
_CONFLICT = re.compile(
    r"commit conflict|Conflicting|preempted by|concurrent (commit|transaction|writer)|removed by (a )?concurrent",
    re.IGNORECASE,
)
# What Lance or a store says, the error it stands for, how it is told, what to do. The first that fits counts.
_TRANSLATIONS: tuple[tuple[re.Pattern[str], type[LancewrightError], str, str], ...] = (
    (
        _DENIED,
        InvalidRequestError,
        "access was denied ({})",
        "Check that this user, or the credentials in storage_options, may read and write this location.",
    ),
    (
        _FILE_GONE,
        NotFoundError,
        "a file of this version is gone ({})",
        "A cleanup of old versions may have taken it: run the same call again, which reads the latest version.",
    ),
    (
        _NO_LANCE_FILE,
        CorruptIndexError,
        "{}",
        "Restore the file from a copy, or the table to an earlier version.",
    ),
    (
        _NOT_FOUND,
        NotFoundError,
        "not found ({})",
        "Check the URI, the branch and the version; create the table first with lance.write_dataset.",
    ),
    (
        re.compile("not supported", re.IGNORECASE),
        UnsupportedError,
        "{}",
        "Use another kind or a newer pylance.",
    ),
    (
        _UNREACHABLE,
        LancewrightError,
        "the store did not answer ({})",
        "Check the network and the endpoint in storage_options, then run the same call again.",
    ),
    (_INVALID, InvalidRequestError, "{}", "Check the URI and the parameters."),
    (_DAMAGED, CorruptIndexError, "{}", "Rebuild the index, or restore an earlier version."),
)
_VERSION_GONE = (
    "Check the version: a cleanup of old versions may have taken it. A build that was reading it goes on with the "
    "latest one when the same call is made again."
)


def lance_version() -> str:
    """The release of pylance in this process."""
    return str(lance.__version__)


def require_lance(version: str | None = None) -> None:
    """Raise when pylance is older than what this package was measured against."""
    found = lance_version() if version is None else version
    major = found.split(".", maxsplit=1)[0]
    if not major.isdecimal() or int(major) < LANCE_MAJOR_MIN:
        raise UnsupportedError(
            f"pylance {found} is installed; lancewright needs {LANCE_MAJOR_MIN} or newer",
            f"Run: pip install 'pylance>={LANCE_MAJOR_MIN},<{LANCE_MAJOR_MIN + 1}' on the driver and on every executor.",
        )


def segment_from_lance(index: Any) -> Segment:  # Any: lance's Index is untyped
    """Convert pylance's description of a segment."""
    type_url, details = index.index_details or (None, b"")
    files = index.files
    return Segment(
        uuid=str(index.uuid),
        name=index.name,
        field_ids=tuple(index.fields),
        dataset_version=index.dataset_version,
        fragments=FrozenBitMap(index.fragment_ids),
        index_version=index.index_version,
        type_url=type_url,
        details=bytes(details),
        created_at=index.created_at,
        base_id=index.base_id,
        files=None
        if files is None
        else tuple(SegmentFile(path=file.path, size_bytes=file.size_bytes) for file in files),
        covering_field_ids=tuple(index.covering_fields or ()),
    )


def segment_to_lance(segment: Segment) -> Any:  # Any: lance's Index is untyped
    """Convert a segment to what pylance commits."""
    files = segment.files
    return _dataset_module.Index(
        uuid=segment.uuid,
        name=segment.name,
        fields=list(segment.field_ids),
        dataset_version=segment.dataset_version,
        fragment_ids=set(segment.covered),
        index_version=segment.index_version,
        # pylance takes only dates that carry a zone
        created_at=_with_zone(segment.created_at),
        base_id=segment.base_id,
        files=None
        if files is None
        else [_dataset_module.IndexFile(file.path, file.size_bytes) for file in files],
        index_details=None if segment.type_url is None else (segment.type_url, segment.details),
        covering_fields=list(segment.covering_field_ids),
    )


def segment_stub(segment: Segment) -> Any:  # Any: lance's Index is untyped
    """The least that names a segment in the removals of a transaction: Lance matches by uuid only."""
    return _dataset_module.Index(
        uuid=segment.uuid,
        name=segment.name,
        fields=[],
        dataset_version=0,
        fragment_ids=set(),
        index_version=0,
    )


def serialize_rows(bitmaps: Mapping[int, FrozenBitMap]) -> bytes:
    """Encode row ids for a scanner's allow list: the low 32 bits of each under their high 32 bits.

    The bytes ``lance.dataset.serialize_row_addrs`` makes, without a Python object for each row.
    """
    parts = [_COUNT.pack(len(bitmaps))]
    for high, low in sorted(bitmaps.items()):
        body = low.serialize()
        parts += (_COUNT.pack(high), _COUNT.pack(len(body)), body)
    return b"".join(parts)


def is_commit_conflict(error: BaseException) -> bool:
    """True when another writer got in between. Compaction conflicts arrive as a plain OSError, so the text decides."""
    return isinstance(error, CommitConflictError) or bool(_CONFLICT.search(str(error)))


def translate_error(error: BaseException, table: TableRef, doing: str) -> LancewrightError:
    """Turn an error of Lance or of the storage below it into one of ours; the caller raises it ``from`` the original."""
    words = redact_text(str(error), table).strip()
    text = words.splitlines()[0] if words else type(error).__name__
    for pattern, kind, what, remedy in _TRANSLATIONS:
        if pattern.search(str(error)):
            problem = f"Could not {doing} {table.name}: {what.replace('{}', text)}"
            is_version = pattern is _NOT_FOUND and table.version is not None
            return kind(problem, _VERSION_GONE if is_version else remedy)
    return LancewrightError(
        f"Could not {doing} {table.name}: {text}", "Mend the cause named here, then run the same call again."
    )


@contextmanager
def translating(table: TableRef, doing: str) -> Iterator[None]:
    """Whatever Lance or the storage raises inside leaves as one of our errors, without what is secret."""
    try:
        yield
    except LancewrightError as error:
        if open_cause(error, table) is error:
            raise
        raise type(error)(redact_text(error.problem, table), error.remedy) from None
    except Exception as error:  # noqa: BLE001 - what is not known by name gets a general error of ours
        raise translate_error(error, table, doing) from open_cause(error, table)
    except BaseException as error:
        if not _is_panic(error):
            raise
        raise CorruptIndexError(
            f"Could not {doing} {table.name}: Lance gave up on what it read ({redact_text(str(error), table)})",
            "Rebuild the index named, or restore an earlier version.",
        ) from open_cause(error, table)


def _is_panic(error: BaseException) -> bool:
    # Rust code that gives up arrives as an exception that is no Exception, of a class that cannot be imported.
    return type(error).__name__ == "PanicException"


def open_cause(error: BaseException, table: TableRef) -> BaseException | None:
    """The original, for an error of ours to be raised from; None when it, or what it came from, tells a secret.

    Causes are printed with the error, in the words of the library they come from.
    """
    return None if any(_tells_secret(link, table) for link in _chain(error)) else error


def redact_text(text: str, table: TableRef) -> str:
    """Remove every credential this table carries from a message of another library."""
    text = text.replace(table.root_uri, table.name)
    for secret in table.secrets:
        text = text.replace(quote(secret, safe=""), "…").replace(secret, "…")
    return _RUST_PLACE.sub("", _SIGNATURE.sub(r"\1…", text))


def _tells_secret(error: BaseException, table: TableRef) -> bool:
    return redact_text(str(error), table) != _RUST_PLACE.sub("", str(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and those printed with it."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _with_zone(moment: datetime | None) -> datetime | None:
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=UTC)
