"""The kinds that index words: full text search and near duplicates. Data only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancewright.kinds.lance_native.column_types import (
    accepts_documents,
    accepts_text,
    is_json,
    is_list,
    storage_type,
)
from lancewright.kinds.lance_native.definition import NativeKind, Parameter, Trimming

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancewright.model.columns import Column

_LANGUAGES = (
    "Arabic", "Danish", "Dutch", "English", "Finnish", "French", "German", "Greek", "Hungarian", "Italian",
    "Norwegian", "Portuguese", "Romanian", "Russian", "Spanish", "Swedish", "Tamil", "Turkish",
)  # fmt: skip
_TOKENIZERS = ("simple", "whitespace", "raw", "ngram", "icu", "icu/split", "code")
_DICTIONARY_TOKENIZERS = ("jieba/", "lindera/")
_CODE_FLAGS = ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators")
_NGRAM_LENGTHS = ("min_ngram_length", "max_ngram_length", "prefix_only")

TOKENIZER = (
    Parameter(name="analyzer", type="str", choices=("text", "code"), doc="A preset of the flags below (text)."),
    Parameter(name="base_tokenizer", type="str", doc=f"How text is cut: {', '.join(_TOKENIZERS)}, jieba/…, lindera/…"
                                                     " (simple)."),
    Parameter(name="language", type="str", choices=_LANGUAGES, doc="Language of stems and stop words (English)."),
    Parameter(name="max_token_length", type="int", low=1, nullable=True,
              doc="Longer tokens are dropped; None keeps all (40)."),
    Parameter(name="lower_case", type="bool", doc="Ignore case (True)."),
    Parameter(name="stem", type="bool", doc="Index stems of words (True; False for ngram and code)."),
    Parameter(name="remove_stop_words", type="bool", doc="Leave out frequent words (True; False for ngram and code)."),
    Parameter(name="ascii_folding", type="bool", doc="Fold é to e (True)."),
    Parameter(name="min_ngram_length", type="int", low=1, doc="Shortest n-gram of the ngram tokenizer (3)."),
    Parameter(name="max_ngram_length", type="int", low=1, doc="Longest n-gram of the ngram tokenizer (3)."),
    Parameter(name="prefix_only", type="bool", doc="Only n-grams at the start of a word (False)."),
    Parameter(name="split_identifiers", type="bool", doc="Code: getUserName is also get, user, name (False)."),
    Parameter(name="split_on_numerics", type="bool", doc="Code: split html2json at its digits (True)."),
    Parameter(name="preserve_original", type="bool", doc="Code: keep the whole identifier as well (True)."),
    Parameter(name="index_operators", type="bool", doc="Code: index operators such as :: and -> (False)."),
)  # fmt: skip

_INVERTED = (
    *TOKENIZER,
    Parameter(name="lance_tokenizer", type="str", choices=("text", "json"),
              doc="How text is taken out of the column (by its type)."),
    Parameter(name="custom_stop_words", type="list of str", doc="Stop words instead of the language's own."),
    Parameter(name="with_position", type="bool", doc="Store positions, which phrase queries need (False)."),
    Parameter(name="block_size", type="int", choices=(128, 256), doc="Documents per compressed block (128)."),
    Parameter(name="memory_limit", type="int", low=1, doc="MiB for one build, shared by its workers (2048 each)."),
    Parameter(name="num_workers", type="int", low=1, doc="Threads of one build (the machine's cores)."),
    Parameter(name="format_version", type="int", choices=(1, 2, 3), doc="Layout on disk (2; 3 for code or block 256)."),
    Parameter(name="document_granularity", type="str", choices=("row", "list_element"), default="row",
              doc="What one document is: the row, or each element of its deepest list."),
)  # fmt: skip


def _combine_tokenizer(parameters: Mapping[str, Any]) -> str | None:
    tokenizer = parameters.get("base_tokenizer", "simple")
    if tokenizer not in _TOKENIZERS and not tokenizer.startswith(_DICTIONARY_TOKENIZERS):
        return f"base_tokenizer {tokenizer!r} is not one of {', '.join(_TOKENIZERS)}, jieba/…, lindera/…"
    analyzer = parameters.get("analyzer") or ("code" if tokenizer == "code" else "text")
    if (analyzer == "code") != (tokenizer == "code") and "base_tokenizer" in parameters:
        return "analyzer 'code' and base_tokenizer 'code' go together"
    flags = [flag for flag in _CODE_FLAGS if parameters.get(flag)]
    if flags and analyzer != "code":
        return f"{', '.join(flags)} need analyzer='code'"
    lengths = [name for name in _NGRAM_LENGTHS if name in parameters]
    if lengths and tokenizer != "ngram":
        return f"{', '.join(lengths)} need base_tokenizer='ngram'"
    if parameters.get("min_ngram_length", 3) > parameters.get("max_ngram_length", 3):
        return "min_ngram_length is larger than max_ngram_length (both are 3 unless given)"
    return None


def _combine_inverted(column: Column, parameters: Mapping[str, Any]) -> str | None:
    if parameters.get("block_size") == 256 and parameters.get("format_version") in {1, 2}:
        return "block_size=256 needs format_version=3"
    if parameters.get("document_granularity") == "list_element" and not is_list(storage_type(column.type)):
        return f"document_granularity='list_element' needs a list column, {column.path} is {column.type}"
    if parameters.get("lance_tokenizer") == "json" and not is_json(column):
        # Lance panics in a background thread instead of answering with an error.
        return f"lance_tokenizer='json' needs a JSON column, {column.path} is {column.type}"
    if parameters.get("custom_stop_words") and parameters.get("remove_stop_words") is False:
        return "custom_stop_words have no effect with remove_stop_words=False"
    return _combine_tokenizer(parameters)


def _combine_minhash(_column: Column, parameters: Mapping[str, Any]) -> str | None:
    hashes, bands = parameters.get("num_hashes", 128), parameters.get("num_bands", 16)
    if hashes % bands:
        return f"num_hashes ({hashes}) is not a multiple of num_bands ({bands})"
    tokenizer = parameters.get("tokenizer", {})
    if tokenizer.get("base_tokenizer", "").startswith(_DICTIONARY_TOKENIZERS):
        return "a tokenizer with its own dictionary cannot be recorded in this kind"
    return _combine_tokenizer(tokenizer)


_NOTHING = Trimming(alive=False, gone=False)

INVERTED = NativeKind(
    name="inverted", lance_name="inverted", family="text", type_url="/lance.table.InvertedIndexDetails",
    index_version_max=3, parameters=_INVERTED, accepts=accepts_documents, combine=_combine_inverted, aliases=("fts",),
    stale_on_update=True, trimming_on_stable_row_ids=_NOTHING, cleaned_by_merge=False,
    # Lance merges the extracted texts of a column and takes those of JSON, which are binary, for no text.
    unmergeable_on=is_json,
    # Documents of a fragment that is gone answer nothing, but still count in everybody's BM25 score.
    trimming_on_addresses=_NOTHING, doc="Full text search, ranked by BM25.",
)  # fmt: skip
MINHASH_LSH = NativeKind(
    name="minhash_lsh", lance_name="minhashlsh", family="text", type_url="/lance.index.pb.MinHashLshIndexDetails",
    index_version_max=0, accepts=accepts_text, combine=_combine_minhash, aliases=("minhashlsh", "minhash"),
    stale_on_update=True, trimming_on_stable_row_ids=_NOTHING,
    doc="Near duplicates of a text.",
    parameters=(
        Parameter(name="num_hashes", type="int", low=1, high=4096, doc="Hashes of a signature (128)."),
        Parameter(name="num_bands", type="int", low=1, high=256, doc="Bands of a signature (16)."),
        Parameter(name="shingle_size", type="int", low=1, doc="Words per shingle (3)."),
        Parameter(name="tokenizer", type="mapping", schema=TOKENIZER, doc="How text is cut, as for 'inverted'."),
    ),
)  # fmt: skip
KINDS = (INVERTED, MINHASH_LSH)
