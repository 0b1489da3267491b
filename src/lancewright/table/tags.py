"""Answers which version a tag names."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lancewright.errors import InvalidRequestError, NotFoundError
from lancewright.table.lance_compat import translating
from lancewright.table.opening import open_dataset

if TYPE_CHECKING:
    from lancewright.table.location import TableRef

_SUGGESTED_TAGS_MAX = 12


def read_tag(table: TableRef, tag: object) -> TableRef:
    """The table at the version a tag names, and on the branch that has this version."""
    if not isinstance(tag, str) or not tag:
        raise InvalidRequestError(f"tag={tag!r} is no name of a tag", "Pass the tag's name as text.")
    dataset = open_dataset(table.latest())
    with translating(table, "read the tags of"):
        tags: dict[str, Any] = dataset.tags.list()  # Any: pylance describes a tag as a dict of several types
    if tag not in tags:
        known = difflib.get_close_matches(tag, tags, n=_SUGGESTED_TAGS_MAX, cutoff=0)
        listed = f"Name one of: {', '.join(known)}." if known else "The table has no tags: name a version."
        raise NotFoundError(f"Tag {tag!r} is not in {table.name}", listed)
    return replace(table, version=int(tags[tag]["version"]), branch=tags[tag]["branch"])
