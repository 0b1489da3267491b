"""Keys that are expressions: one meaning at build and in filters, columns known by id, and what is refused before any task."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.query.resolve import ScanRequest, plan_scan, resolve_scan
from lancewright.query.run import run_scan
from lancewright.query.settings import ScanSettings
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref

if TYPE_CHECKING:
    from pathlib import Path

EAGER = ScanSettings(random_read_bytes=0, run_bytes=0, index_byte_weight=0.0)
GREATEST = 2**31 - 1


def write_people(folder: Path, *, stable_row_ids: bool = False) -> str:
    uri = str(folder / "people")
    rows = pa.table(
        {
            "id": pa.array([1, 2, GREATEST, None, 5, 6], pa.int32()),
            "email": ["Ann@X", "BOB@x", None, "ann@x", "eve@x", "12"],
            "doc": pa.array([json.dumps({"a": {"b": place}}) for place in range(5)] + [None], pa.json_()),
            "tags": [["a"], ["b"], [], None, ["a"], ["c"]],
            "price": pa.array([1, 2, 3, None, 5, 6], pa.decimal128(10, 2)),
            "at": pa.array([*range(0, 6 * 3600, 3600)], pa.timestamp("s", tz="Europe/Berlin")),
            "ratio": pa.array([0.1, 0.2, 0.3, None, 0.5, 0.6], pa.float32()),
        }
    )
    lance.write_dataset(rows, uri, max_rows_per_file=2, enable_stable_row_ids=stable_row_ids)
    return uri


def find(uri: str, where: str) -> tuple[list[str | None], set[str]]:
    """The emails found, and the indexes asked for them."""
    request = ScanRequest(where=where, columns=("email",), settings=EAGER, strict=True)
    planned = plan_scan(table_ref(uri), request, 1)
    rows = run_scan(resolve_scan(planned), LocalRunner())
    return rows["email"].to_pylist(), {note.index for note in planned.plan.notes if note.used}


def test_a_condition_is_answered_however_it_is_spelled(tmp_path: Path) -> None:
    uri = write_people(tmp_path)

    lw.open(uri, progress=False).create_index("Lower( EMAIL )", kind="key")

    for where in ("lower(email) = 'ann@x'", "'ann@x' = LOWER(`email`)", "lower(email) IN ('ann@x', 'q')"):
        assert find(uri, where) == (["Ann@X", "ann@x"], {"lower_email_idx"})


def test_arithmetic_has_the_value_it_has_in_a_filter(tmp_path: Path) -> None:
    """A projection of ``id + 1`` overflows in 32 bits, a filter does not."""
    uri = write_people(tmp_path)

    lw.open(uri, progress=False).create_index("id + 1", kind="composite", name="next")

    assert find(uri, f"id + 1 > {GREATEST}") == ([None], {"next"})
    assert find(uri, "id + 1 < 3") == (["Ann@X"], {"next"})


def test_a_path_into_json_is_a_key(tmp_path: Path) -> None:
    uri = write_people(tmp_path)
    path = "json_get_int(json_get(doc, 'a'), 'b')"

    lw.open(uri, progress=False).create_index(path, kind="composite", name="path")

    assert find(uri, f"{path} BETWEEN 2 AND 3") == ([None, "ann@x"], {"path"})
    assert find(uri, f"{path} IS NULL") == (["12"], {"path"})


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_an_expression_keeps_its_columns_when_they_are_renamed(tmp_path: Path, stable_row_ids: bool) -> None:
    uri = write_people(tmp_path, stable_row_ids=stable_row_ids)
    lw.open(uri, progress=False).create_index("lower(email)", kind="key")
    dataset = lance.dataset(uri)
    dataset.alter_columns({"path": "email", "name": "mail"})
    dataset.add_columns({"email": "'eve@x'"})

    old = find(uri, "lower(mail) = 'ann@x'")
    new = find(uri, "lower(email) = 'ann@x'")

    assert old == (["eve@x", "eve@x"], {"lower_email_idx"})
    assert new == ([], set())
    assert lw.open(uri).indexes()[0].keys == ("lower(mail)",)


def test_an_expression_whose_column_is_gone_is_not_asked(tmp_path: Path) -> None:
    uri = write_people(tmp_path)
    lw.open(uri, progress=False).create_index(["lower(email)", "id"], kind="composite", name="both")
    dataset = lance.dataset(uri)

    dataset.drop_columns(["id"])

    request = ScanRequest(where="lower(email) = 'ann@x'", columns=("email",), settings=EAGER)
    planned = plan_scan(table_ref(uri), request, 1)
    assert run_scan(resolve_scan(planned), LocalRunner()).num_rows == 2
    assert not any(note.used for note in planned.plan.notes)


@pytest.mark.parametrize(
    "literal",
    ["date '1970-01-01'", "'1970-01-01'", "timestamp '1970-01-01 03:00:00'", "'1970-01-01 03:30:00'"],
)
def test_days_and_times_in_a_zone_are_what_lance_takes_them_for(tmp_path: Path, literal: str) -> None:
    uri = write_people(tmp_path)
    lw.open(uri, progress=False).create_index("date_trunc('hour', at)", kind="composite")

    for where in (
        f"date_trunc('hour', at) > {literal}",
        f"date_trunc('hour', at) IN ({literal}, '1970-01-01 02:00:00')",
    ):
        expected = lance.dataset(uri).to_table(filter=where, columns=["email"])["email"].to_pylist()
        assert find(uri, where)[0] == expected


def test_rows_rewritten_in_place_have_their_new_value(tmp_path: Path) -> None:
    uri = write_people(tmp_path)
    lw.open(uri, progress=False).create_index("lower(email)", kind="key")
    dataset = lance.dataset(uri)
    new = pa.table({"id": pa.array([1], pa.int32()), "email": ["Zoe@X"]})

    updated, fields = dataset.get_fragment(0).update_columns(new, left_on="id", right_on="id")
    operation = lance.LanceOperation.Update(updated_fragments=[updated], fields_modified=fields)
    lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)

    assert find(uri, "lower(email) = 'ann@x'") == (["ann@x"], {"lower_email_idx"})
    assert find(uri, "lower(email) = 'zoe@x'")[0] == ["Zoe@X"]


def test_what_lance_cannot_compare_it_refuses_with_an_index_as_without(tmp_path: Path) -> None:
    uri = write_people(tmp_path)
    lw.open(uri, progress=False).create_index("length(email)", kind="composite")

    assert find(uri, "length(email) = '5'")[0] == ["Ann@X", "BOB@x", "ann@x", "eve@x"]
    with pytest.raises(lw.LancewrightError):
        find(uri, "length(email) = 'five'")


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("random() * id", "Function random gives another value each time"),
        ("concat(email, uuid())", "Function uuid gives another value each time"),
        ("date_trunc('day', now())", "Function now gives another value each time"),
        ("lower(nobody)", "Column nobody is not in the table"),
        ("lowercase(email)", "Function lowercase is not one"),
        ("lower(email", "needs ')'"),
        ("lower('x')", "has no column in it"),
        ("lower(email, 3)", "cannot be evaluated"),
        ("(id + 1) > 3", "is no value that an index can have as a key"),
        ("_rowid + 1", "which every compaction changes"),
        ("array_length(tags)", "whose values lie in fields below it"),
        ("ratio * 2", "depends on the machine"),
        ("named_struct('a', id)", "no condition can compare"),
        ("count(id)", "sees more than one row"),
        ("CAST(price AS BIGINT)", "has another value in a filter than by itself"),
        ("coalesce(TRY_CAST(id AS SMALLINT))", "has another value in a filter than by itself"),
        ("arrow_cast(id, 'Int64')", "may have another value in a filter"),
    ],
)
def test_what_no_index_can_have_as_a_key_is_refused_before_any_task(
    tmp_path: Path, expression: str, problem: str
) -> None:
    uri = write_people(tmp_path)

    with pytest.raises(lw.InvalidRequestError) as raised:
        lw.open(uri, progress=False).create_index(expression, kind="key")

    assert problem in str(raised.value)
    assert lance.dataset(uri).version == 1


@pytest.mark.parametrize("kind", ["btree", "bitmap", "inverted"])
def test_kinds_of_lance_have_no_expression(tmp_path: Path, kind: str) -> None:
    uri = write_people(tmp_path)

    with pytest.raises(lw.UnsupportedError, match="Lance would take an index of lower"):
        lw.open(uri, progress=False).create_index("lower(email)", kind=kind)


def test_a_value_that_an_expression_has_not_fails_the_build_and_leaves_the_table(tmp_path: Path) -> None:
    uri = write_people(tmp_path)
    table = lw.open(uri, progress=False)

    with pytest.raises(lw.TasksFailedError):
        table.create_index("CAST(email AS BIGINT)", kind="key")

    assert lance.dataset(uri).version == 1
    table.create_index("TRY_CAST(email AS BIGINT)", kind="key", name="numbers")
    assert find(uri, "TRY_CAST(email AS BIGINT) = 12") == (["12"], {"numbers"})


def test_an_expression_is_shown_where_columns_are(tmp_path: Path) -> None:
    uri = write_people(tmp_path)
    table = lw.open(uri, progress=False)

    plan = str(table.create_index(["id", "lower(email)"], kind="composite", dry_run=True))
    table.create_index(["id", "lower(email)"], kind="composite")

    (index,) = table.indexes()
    assert "id, lower(email)" in plan
    assert (index.name, index.columns, index.keys) == (
        "id_lower_email_idx",
        ("id", "email"),
        ("id", "lower(email)"),
    )
