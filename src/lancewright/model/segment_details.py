"""What the manifest says of a segment whose kind is not Lance's: its entry's details, as bytes and as a value. Pure.

Small, because every manifest carries it, and enough to plan with, because no file is opened for planning. Layout, all numbers
little endian: magic, version (u16), then three blocks, each its length (u32) and its bytes: JSON, the fragments it was built
over as a roaring bitmap, the kind's summary; at the end a CRC-32 of all that.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from pyroaring import FrozenBitMap

TYPE_URL = "/lancewright.index.SegmentDetails"
DETAILS_VERSION = 1
_MAGIC = b"LWSD"
_START = struct.Struct("<4sH")
_LENGTH = struct.Struct("<I")


class DetailsError(ValueError):
    """The bytes are no details that this release can read."""


class DetailsTooNewError(DetailsError):
    """A later release wrote them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDetails:
    """One key: the type its values had, how many of its rows are NULL, and its expression if it is no plain column.

    ``fields`` are the columns it is over, by path at the time and field id; without them it is the field at its own place among
    those of the manifest entry. ``arrow_type`` is the type of an expression as ``arrow_cast`` names it.
    """

    type: str
    nulls: int
    expression: str | None = None
    fields: tuple[tuple[str, int], ...] = ()
    arrow_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDetails:
    """A segment: which kind and format wrote it, over what, and where its header is to be believed.

    ``built`` are the fragments it was built over, whatever became of them. ``rows`` counts every row of them, also deleted
    ones; ``unkeyed`` those that the kind could not key. ``plugin`` names the distribution that wrote it, and its version.
    ``values`` are the columns whose values are kept with the segment, by field id and type.
    """

    kind: str
    format: int
    api: tuple[int, int]
    plugin: str
    parameters: str
    keys: tuple[KeyDetails, ...]
    rows: int
    unkeyed: int
    header_bytes: int
    header_checksum: int
    stable_row_ids: bool
    built: FrozenBitMap
    summary: bytes = b""
    values: tuple[tuple[int, str], ...] = ()

    def to_bytes(self) -> bytes:
        """The details as the manifest keeps them."""
        content = {
            "kind": self.kind,
            "format": self.format,
            "api": list(self.api),
            "plugin": self.plugin,
            "parameters": self.parameters,
            "keys": [
                [key.type, key.nulls, key.expression, [list(field) for field in key.fields], key.arrow_type]
                for key in self.keys
            ],
            "rows": self.rows,
            "unkeyed": self.unkeyed,
            "header": [self.header_bytes, self.header_checksum],
            "stable_row_ids": self.stable_row_ids,
            "values": [list(value) for value in self.values],
        }
        blocks = (json.dumps(content, separators=(",", ":")).encode(), self.built.serialize(), self.summary)
        body = _START.pack(_MAGIC, DETAILS_VERSION) + b"".join(
            _LENGTH.pack(len(block)) + block for block in blocks
        )
        return body + _LENGTH.pack(zlib.crc32(body))


def is_ours(type_url: str | None) -> bool:
    """True for segments whose details this module reads. As Lance does it: neither case nor what precedes the slash counts."""
    return (type_url or "").rpartition("/")[2].lower() == TYPE_URL.rpartition("/")[2].lower()


def details_from_bytes(content: bytes) -> SegmentDetails:
    """Read details; raise DetailsTooNewError or DetailsError, and nothing else, when they cannot be read."""
    if len(content) < _START.size + _LENGTH.size or content[:4] != _MAGIC:
        raise DetailsError("its manifest entry has no details of ours")
    _, version = _START.unpack_from(content)
    if version > DETAILS_VERSION:
        raise DetailsTooNewError(f"its manifest entry has version {version}, the newest known here is 1")
    body = content[: -_LENGTH.size]
    if zlib.crc32(body) != _LENGTH.unpack(content[-_LENGTH.size :])[0]:
        raise DetailsError("the details in its manifest entry are damaged: the checksum does not fit")
    try:
        text, built, summary = _blocks(body)
        return _parse(json.loads(text), FrozenBitMap.deserialize(built), summary)
    except (KeyError, IndexError, TypeError, ValueError, struct.error, RecursionError) as error:
        raise DetailsError(f"the details in its manifest entry make no sense: {error}") from error


def _blocks(body: bytes) -> list[bytes]:
    blocks, place = [], _START.size
    for _ in range(3):
        (length,) = _LENGTH.unpack_from(body, place)
        place += _LENGTH.size
        blocks.append(body[place : place + length])
        place += length
    return blocks


def _key(
    type_: str, nulls: int, expression: str | None, fields: Any = (), arrow_type: str | None = None
) -> KeyDetails:  # Any: it is JSON
    return KeyDetails(
        type=str(type_),
        nulls=int(nulls),
        expression=expression,
        fields=tuple((str(path), int(field_id)) for path, field_id in fields),
        arrow_type=arrow_type,
    )


def _parse(content: dict[str, Any], built: FrozenBitMap, summary: bytes) -> SegmentDetails:  # Any: it is JSON
    major, minor = content["api"]
    header_bytes, header_checksum = content["header"]
    return SegmentDetails(
        kind=str(content["kind"]),
        format=int(content["format"]),
        api=(int(major), int(minor)),
        plugin=str(content["plugin"]),
        parameters=str(content["parameters"]),
        keys=tuple(_key(*key) for key in content["keys"]),
        rows=int(content["rows"]),
        unkeyed=int(content["unkeyed"]),
        header_bytes=int(header_bytes),
        header_checksum=int(header_checksum),
        stable_row_ids=bool(content["stable_row_ids"]),
        built=built,
        summary=summary,
        values=tuple((int(field_id), str(type_)) for field_id, type_ in content.get("values", ())),
    )
