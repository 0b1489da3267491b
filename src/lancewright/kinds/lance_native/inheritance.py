"""Reads the options and the model of an index out of one of its segments, so that a later segment is built alike.

Lance records them where each kind needs them: in the manifest entry, in the metadata of a file, in its buffers. What a
kind does not record has no effect on what is stored either, such as how a model was trained.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from lancewright.errors import CorruptIndexError, UnsupportedError
from lancewright.kinds.btree.empty_ranges import count_parts
from lancewright.kinds.btree.pages import LOOKUP_FILE
from lancewright.model.compatibility import NATIVE_TYPES
from lancewright.model.vector_details import vector_metric

if TYPE_CHECKING:
    from collections.abc import Callable

    from lancewright.kinds.lance_native.definition import NativeKind
    from lancewright.model.index import Segment

Options = dict[str, Any]  # Any: each option has its own type; resolving a request checks it
_NO_FILES = frozenset({"bitmap", "label_list", "ngram", "fm"})  # nothing to choose, so nothing recorded
_PAGES = "page_data.lance"
_INDEX, _CODES = "index.idx", "auxiliary.idx"
# lance.file.pb.Tensor.DataType
_TENSOR_TYPES = {1: "<f2", 2: "<f4", 3: "<f8", 4: "u1"}
_HNSW = {1: "m", 2: "ef_construction", 3: "max_level"}


class Files(Protocol):
    """What ``table.segment_reader`` offers of a segment's files."""

    @property
    def names(self) -> tuple[str, ...]:
        """The files."""
        ...

    def read_metadata(self, name: str) -> dict[str, str]:
        """What a file says of itself."""
        ...

    def read_type(self, name: str, field: str) -> pa.DataType | None:
        """The type of a column."""
        ...

    def read_buffer(self, name: str, number: int) -> bytes:
        """One of a file's global buffers."""
        ...


def read_options(kind: NativeKind, segment: Segment, files: Files) -> Options:
    """The parameters that make another segment like this one, model parts included; those of an empty one are fewer."""
    if kind.name in _NO_FILES:
        return {}
    try:
        if kind.family == "vector":
            return _vector(kind, segment, files)
        return _READERS[kind.name](segment, files)
    except (KeyError, ValueError, TypeError, DecodeError, pa.ArrowException) as error:
        raise CorruptIndexError(
            f"The options of index {segment.name!r} cannot be read from segment {segment.uuid}: {error!r}",
            "Rebuild the index with replace=True.",
        ) from error


def was_merged(kind: NativeKind, files: Files) -> bool:
    """True for a segment whose codes lie as queries read them: Lance merges only those that lie as they were built."""
    if kind.family != "vector" or _CODES not in files.names:
        return False
    stored = _stored(files)
    return bool(stored.get("transposed") or stored.get("packed"))


def _btree(segment: Segment, files: Files) -> Options:
    if LOOKUP_FILE not in files.names:
        return {}
    options: Options = {"page_rows": int(files.read_metadata(LOOKUP_FILE)["batch_size"])}
    return options | ({"layout": "range"} if count_parts(segment) else {})


def _zonemap(segment: Segment, _files: Files) -> Options:
    rows = _numbers(segment.details).get(1)
    return {} if not rows else {"rows_per_zone": rows}


def _bloomfilter(_segment: Segment, files: Files) -> Options:
    found = {} if not files.names else files.read_metadata("bloomfilter.lance")
    if "bloomfilter_item" not in found:
        return {}
    return {
        "number_of_items": int(found["bloomfilter_item"]),
        "probability": float(found["bloomfilter_probability"]),
    }


def _rtree(_segment: Segment, files: Files) -> Options:
    found = files.read_metadata(_PAGES) if _PAGES in files.names else {}
    return {"page_size": int(found["page_size"])} if "page_size" in found else {}


def _inverted(segment: Segment, files: Files) -> Options:
    if "metadata.lance" not in files.names:
        raise UnsupportedError(
            f"Index {segment.name!r} is empty and does not say how its text is to be cut",
            "Create it anew with replace=True.",
        )
    found = files.read_metadata("metadata.lance")
    options = _without_defaults(json.loads(found["params"]))
    return (
        options | {"format_version": int(found["format_version"])} if "format_version" in found else options
    )


def _minhash(segment: Segment, _files: Files) -> Options:
    numbers, texts = _numbers(segment.details), _bytes(segment.details)
    options: Options = {"num_hashes": numbers[1], "num_bands": numbers[2], "shingle_size": numbers[3]}
    tokenizer = _tokenizer(texts.get(4, b""))
    return options | ({"tokenizer": tokenizer} if tokenizer else {})


def _json(segment: Segment, files: Files) -> Options:
    path, target = _bytes(segment.details)[1].decode(), _bytes(segment.details)[2]
    url, inner = _bytes(target)[1].decode(), _bytes(target).get(2, b"")
    kind = NATIVE_TYPES["/" + url.lstrip("/")][0]
    options: Options = {"path": path, "target_index_type": kind}
    parameters: Options = {}
    if kind == "btree" and LOOKUP_FILE in files.names:
        parameters = {"zone_size": int(files.read_metadata(LOOKUP_FILE)["batch_size"])}
    elif kind == "zonemap" and _numbers(inner).get(1):
        parameters = {"rows_per_zone": _numbers(inner)[1]}
    elif kind == "bloomfilter":
        parameters = _bloomfilter(segment, files)
    type_ = _json_type(kind, files)
    return (
        options
        | ({"target_index_parameters": parameters} if parameters else {})
        | ({"target_data_type": type_} if type_ else {})
    )


_JSON_KEYS = {
    "btree": (LOOKUP_FILE, "min"),
    "zonemap": ("zonemap.lance", "min"),
    "bitmap": ("bitmap_page_lookup.lance", "keys"),
}


def _json_type(kind: str, files: Files) -> str | None:
    if kind in {"ngram", "fm"}:
        return "Utf8"
    name, field = _JSON_KEYS.get(kind, ("", ""))
    type_ = files.read_type(name, field) if name in files.names else None
    if type_ is None:
        return None  # a build asks the table's first value, as the first one did
    return "Int64" if pa.types.is_integer(type_) else "Float64" if pa.types.is_floating(type_) else "Utf8"


_READERS: dict[str, Callable[[Segment, Files], Options]] = {
    "btree": _btree,
    "zonemap": _zonemap,
    "bloomfilter": _bloomfilter,
    "rtree": _rtree,
    "inverted": _inverted,
    "minhash_lsh": _minhash,
    "json": _json,
}


def _vector(kind: NativeKind, segment: Segment, files: Files) -> Options:
    metric = vector_metric(segment.details)
    if metric is None:
        raise UnsupportedError(
            f"Index {segment.name!r} was written by a Lance too old to say how it was built",
            "Build it anew with replace=True.",
        )
    options: Options = {"metric": metric}
    inside = _bytes(segment.details)
    if kind.parameter("m") is not None:
        graph = _numbers(inside.get(3, b""))
        options |= {name: graph[number] for number, name in _HNSW.items() if graph.get(number)}
    if kind.name.endswith("pq"):
        codes = _numbers(inside[4])
        options |= {"num_bits": codes[1], "num_sub_vectors": codes[2]}
    if kind.name == "ivf_rq":
        options["num_bits"] = _numbers(inside[6])[1]
    return options | (_model(kind, files) if _INDEX in files.names else {})


def _model(kind: NativeKind, files: Files) -> Options:
    place = int(files.read_metadata(_INDEX)["lance:ivf"])
    centroids = _tensor(_bytes(files.read_buffer(_INDEX, place))[4])
    model: Options = {"ivf_centroids": centroids}
    stored = _stored(files)
    if kind.parameter("pq_codebook") is not None:
        inline = bytes(stored.get("codebook_tensor") or ())
        flat = _tensor(inline or files.read_buffer(_CODES, int(stored["codebook_position"])))
        codes, bits = int(stored["num_sub_vectors"]), int(stored["nbits"])
        model["pq_codebook"] = flat.reshape(codes, 2**bits, -1)
    if kind.parameter("rabitq_model") is not None:
        if stored.get("rotate_mat_position") is not None:
            raise UnsupportedError(
                "The rotation of this index is a matrix, which Lance takes no build from",
                "Build the index anew with replace=True.",
            )
        # A stored rotation also says how the codes beside it are packed; a model has no codes.
        model["rabitq_model"] = json.dumps({**stored, "packed": False})
    return model


def _stored(files: Files) -> Options:
    # One entry for each partition, all alike.
    return dict(json.loads(json.loads(files.read_metadata(_CODES)["storage_metadata"])[0]))


def _tensor(content: bytes) -> np.ndarray[Any, Any]:  # Any: the shape and type are data
    type_ = _numbers(content)[1]
    if type_ not in _TENSOR_TYPES:
        raise UnsupportedError(
            f"The model is stored as tensor type {type_}", "Build the index anew with replace=True."
        )
    shape = _packed(_bytes(content)[2])
    return np.frombuffer(_bytes(content)[3], dtype=_TENSOR_TYPES[type_]).reshape(shape)


# lance.table.InvertedIndexDetails, as field numbers; only what a tokenizer of signatures can have.
def _tokenizer(content: bytes) -> Options:
    texts, numbers = _bytes(content), _numbers(content)
    if not content:
        return {}
    options: Options = {"base_tokenizer": texts[1].decode(), "language": json.loads(texts[2])}
    flags = {5: "lower_case", 6: "stem", 7: "remove_stop_words", 8: "ascii_folding"}
    options |= {name: bool(numbers.get(number, 0)) for number, name in flags.items()}
    options["max_token_length"] = numbers.get(4)
    return options


def _without_defaults(params: Options) -> Options:
    """Leave out what says nothing, which the checks of a request would take for a choice."""
    silent = {
        "custom_stop_words": None,
        "prefix_only": False,
        "split_identifiers": False,
        "preserve_original": False,
        "index_operators": False,
        "split_on_numerics": False,
        "document_granularity": "row",
    }
    kept = {name: value for name, value in params.items() if silent.get(name, ...) != value}
    if kept.get("base_tokenizer") != "ngram":
        kept = {name: value for name, value in kept.items() if not name.endswith("ngram_length")}
    if kept.get("base_tokenizer") == "code":
        kept["analyzer"] = "code"
        kept["split_on_numerics"] = bool(params.get("split_on_numerics"))
    return kept


def _numbers(message: bytes) -> dict[int, int]:
    return {field.field_number: field.data for field in _fields(message) if isinstance(field.data, int)}


def _bytes(message: bytes) -> dict[int, bytes]:
    return {field.field_number: field.data for field in _fields(message) if isinstance(field.data, bytes)}


def _fields(message: bytes) -> UnknownFieldSet:
    # Parsed as a message without fields, so that every field is an unknown one and is listed.
    return UnknownFieldSet(Empty.FromString(message))


def _packed(content: bytes) -> list[int]:
    values, value, shift = [], 0, 0
    for byte in content:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(value)
            value, shift = 0, 0
    return values
