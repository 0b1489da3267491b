"""The parts of Lance's manifest this package reads, as protobuf messages.

Only the fields that are read are declared; protobuf keeps and skips the others. Built from this table instead of
generated code, so that there is no generator to run and a field is one line.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "lancewright.manifest"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bytes": _Field.TYPE_BYTES,
    "int32": _Field.TYPE_INT32,
    "string": _Field.TYPE_STRING,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
}

# message -> (field number, name, type); "*" repeats, "?" tells unset from zero
_MESSAGES: dict[str, tuple[tuple[int, str, str], ...]] = {
    "Uuid": ((1, "uuid", "bytes"),),
    "Any": ((1, "type_url", "string"), (2, "value", "bytes")),
    "IndexFile": ((1, "path", "string"), (2, "size_bytes", "uint64")),
    "IndexMetadata": (
        (1, "uuid", "Uuid"),
        (2, "fields", "int32*"),
        (3, "name", "string"),
        (4, "dataset_version", "uint64"),
        (5, "fragment_bitmap", "bytes?"),
        (6, "index_details", "Any"),
        (7, "index_version", "int32?"),
        (8, "created_at", "uint64?"),
        (9, "base_id", "uint32?"),
        (10, "files", "IndexFile*"),
        (11, "covering_fields", "int32*"),
    ),
    "IndexSection": ((1, "indices", "IndexMetadata*"),),
    "DataFile": (
        (1, "path", "string"),
        (2, "fields", "int32*"),
        (6, "file_size_bytes", "uint64"),
        (7, "base_id", "uint32?"),
    ),
    "DeletionFile": (
        (1, "file_type", "int32"),
        (2, "read_version", "uint64"),
        (3, "id", "uint64"),
        (4, "num_deleted_rows", "uint64"),
    ),
    "DataFragment": (
        (1, "id", "uint64"),
        (2, "files", "DataFile*"),
        (3, "deletion_file", "DeletionFile"),
        (4, "physical_rows", "uint64"),
    ),
    "ReusedFragment": ((1, "id", "uint64"),),
    "FragmentReuseGroup": ((2, "old_fragments", "ReusedFragment*"), (3, "new_fragments", "ReusedFragment*")),
    "FragmentReuseVersion": ((1, "dataset_version", "uint64"), (3, "groups", "FragmentReuseGroup*")),
    "FragmentReuse": ((1, "versions", "FragmentReuseVersion*"),),
    "ExternalFile": ((1, "path", "string"), (2, "offset", "uint64"), (3, "size", "uint64")),
    "FragmentReuseDetails": ((1, "inline", "FragmentReuse"), (2, "external", "ExternalFile")),
    "ConfigEntry": ((1, "key", "string"), (2, "value", "string")),
    "Manifest": (
        (2, "fragments", "DataFragment*"),
        (3, "version", "uint64"),
        (6, "index_section", "uint64?"),
        (9, "reader_feature_flags", "uint64"),
        (11, "max_fragment_id", "uint32?"),
        (14, "next_row_id", "uint64"),
        (16, "config", "ConfigEntry*"),
        (20, "branch", "string?"),
        (23, "transaction_section", "uint64?"),
    ),
    # An operation is declared to be told apart; the fields inside only where they are read.
    "Operation": (),
    "RewriteGroup": ((1, "old_fragments", "DataFragment*"), (2, "new_fragments", "DataFragment*")),
    "Rewrite": ((3, "groups", "RewriteGroup*"),),
    "Replaced": ((1, "fragment_id", "uint64"), (2, "new_file", "DataFile")),
    "DataReplacement": ((1, "replacements", "Replaced*"),),
    "Merge": ((1, "fragments", "DataFragment*"),),
    "Update": (
        (2, "updated_fragments", "DataFragment*"),
        (3, "new_fragments", "DataFragment*"),
        (4, "fields_modified", "uint32*"),
    ),
    "Transaction": (
        (100, "append", "Operation"),
        (101, "delete", "Operation"),
        (103, "create_index", "Operation"),
        (104, "rewrite", "Rewrite"),
        (105, "merge", "Merge"),
        (107, "reserve_fragments", "Operation"),
        (108, "update", "Update"),
        (109, "project", "Operation"),
        (110, "update_config", "Operation"),
        (111, "data_replacement", "DataReplacement"),
    ),
}


def _declare() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="lancewright/manifest.proto", package=_PACKAGE, syntax="proto3"
    )
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for number, name, type_ in fields:
            _declare_field(message, number, name, type_)
    return file


def _declare_field(message: descriptor_pb2.DescriptorProto, number: int, name: str, type_: str) -> None:
    bare = type_.rstrip("*?")
    field = message.field.add(name=name, number=number)
    field.label = _Field.LABEL_REPEATED if type_.endswith("*") else _Field.LABEL_OPTIONAL
    if bare in _SCALARS:
        field.type = _SCALARS[bare]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{bare}"
    if type_.endswith("?"):
        message.oneof_decl.add(name=f"_{name}")
        field.oneof_index = len(message.oneof_decl) - 1
        field.proto3_optional = True


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_declare())


def _message(name: str) -> Any:  # Any: protobuf makes these classes at run time
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


Manifest = _message("Manifest")
IndexSection = _message("IndexSection")
FragmentReuse = _message("FragmentReuse")
FragmentReuseDetails = _message("FragmentReuseDetails")
Transaction = _message("Transaction")
