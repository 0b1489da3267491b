"""A policy is what it was after it was stored, and what is not understood of a stored one is never passed over."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewright.errors import InvalidRequestError, UnsupportedError
from lancewright.maintain.policy import Policy, policy_from_fields, policy_from_json

AGES = st.timedeltas(timedelta(0), timedelta(days=10_000))
POLICIES = st.builds(
    Policy,
    compact=st.booleans(),
    merge=st.booleans(),
    remap=st.sampled_from([None, "drop", "rewrite", "reuse"]),
    rows_per_fragment=st.integers(1, 2**40),
    fragments_min=st.integers(2, 100),
    deleted_share=st.floats(0, 1),
    older_than=AGES,
    orphan_age=AGES,
    thorough_every=AGES,
    seconds_max=st.none() | st.floats(0, 1e9),
    bytes_max=st.none() | st.integers(0, 2**60),
    tasks_max=st.none() | st.integers(0, 2**31),
)


@given(policy=POLICIES)
def test_a_stored_policy_is_read_as_it_was(policy: Policy) -> None:
    assert policy_from_json(policy.to_json()) == policy


@given(name=st.text(min_size=1))
def test_a_field_that_is_not_known_is_named(name: str) -> None:
    document = json.loads(Policy().to_json())
    if name in document or f"{name}_s" in document:
        return

    with pytest.raises(InvalidRequestError) as told:
        policy_from_json(json.dumps({**document, name: 1}))

    assert repr(name) in str(told.value)


def test_a_later_format_is_another_release_s() -> None:
    with pytest.raises(UnsupportedError, match="version 7"):
        policy_from_json('{"version": 7, "whatever": 1}')


def test_fields_are_changed_on_top_of_another_policy() -> None:
    base = Policy(merge=False, tasks_max=3)

    changed = policy_from_fields({"tasks_max": None, "older_than": timedelta(days=1)}, base)

    assert changed == Policy(merge=False, older_than=timedelta(days=1))
