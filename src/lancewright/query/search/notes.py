"""Why a search uses an index or does not: a code for programs, a sentence for people."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class SearchReason(enum.StrEnum):
    """Codes of what a plan decided and of what happened when it ran."""

    USED = "USED"
    NO_INDEX = "NO_INDEX"
    NO_COVERAGE = "NO_COVERAGE"
    NO_PLUGIN = "NO_PLUGIN"
    OTHER_INDEX_CHOSEN = "OTHER_INDEX_CHOSEN"
    METRIC_DIFFERS = "METRIC_DIFFERS"
    METRIC_UNKNOWN = "METRIC_UNKNOWN"
    DISABLED = "DISABLED"
    NOT_TRUSTED = "NOT_TRUSTED"
    NOT_COVERED = "NOT_COVERED"
    LEFT_OUT = "LEFT_OUT"
    RESCORED = "RESCORED"
    ONE_TASK = "ONE_TASK"
    FILTER_ANSWERED = "FILTER_ANSWERED"
    FILTER_IN_TASKS = "FILTER_IN_TASKS"
    FILTER_CHECKED = "FILTER_CHECKED"
    READ_WHOLE = "READ_WHOLE"
    BROKEN_SEGMENT = "BROKEN_SEGMENT"
    FEWER_THAN_K = "FEWER_THAN_K"
    PLUGIN_IMPORT_FAILED = "PLUGIN_IMPORT_FAILED"
    PLUGIN_FAILED = "PLUGIN_FAILED"
    API_MISMATCH = "API_MISMATCH"
    FORMAT_TOO_NEW = "FORMAT_TOO_NEW"
    FORMAT_OLD_REBUILD = "FORMAT_OLD_REBUILD"
    NOT_BUILT = "NOT_BUILT"
    QUERY_NOT_ACCEPTED = "QUERY_NOT_ACCEPTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchNote:
    """One decision: about which index or segment, and why."""

    reason: SearchReason
    subject: str
    explanation: str
