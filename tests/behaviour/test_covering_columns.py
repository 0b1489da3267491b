"""Columns that an index keeps: rows come out of its files, are those of the table, and stop coming when the table changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.query.explain import Explanation, explain_measured
from lancewright.query.resolve import ResolvedScan, ScanRequest, plan_scan, resolve_scan
from lancewright.query.run import count_scan, measure_scan, run_scan
from lancewright.query.settings import ScanSettings
from lancewright.runtime.local_runner import LocalRunner
from lancewright.table.location import table_ref

if TYPE_CHECKING:
    from collections.abc import Sequence

EAGER = ScanSettings(random_read_bytes=0, run_bytes=0, index_byte_weight=0.0)
ROWS, FRAGMENT = 400, 100


def write_orders(folder: Path, *, stable_row_ids: bool = False) -> str:
    uri = str(folder / "orders")
    rows = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int32()),
            "tenant": pa.array([number % 7 for number in range(ROWS)], pa.int64()),
            "name": [None if number % 5 == 0 else f"name {number}" for number in range(ROWS)],
            "amount": pa.array([number / 4 for number in range(ROWS)], pa.float32()),
            "odd name": pa.array(range(ROWS), pa.int16()),
            "tags": [["a"]] * ROWS,
            "color": pa.array(["red", "blue"] * (ROWS // 2)).dictionary_encode(),
        }
    )
    lance.write_dataset(rows, uri, max_rows_per_file=FRAGMENT, enable_stable_row_ids=stable_row_ids)
    return uri


def resolve(uri: str, where: str, columns: Sequence[str], *, strict: bool = True) -> ResolvedScan:
    request = ScanRequest(where=where, columns=tuple(columns), settings=EAGER, strict=strict)
    return resolve_scan(plan_scan(table_ref(uri), request, 1))


def explain(scan: ResolvedScan) -> Explanation:
    return explain_measured(scan, measure_scan(scan, LocalRunner()))


def remove_data(uri: str) -> None:
    """Take the table's data away, so that whoever reads it fails."""
    for file in Path(uri, "data").iterdir():
        file.unlink()


@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("kind", ["composite", "key"])
def test_a_scan_of_kept_columns_does_not_read_the_table(
    tmp_path: Path, kind: str, stable_row_ids: bool
) -> None:
    uri = write_orders(tmp_path, stable_row_ids=stable_row_ids)
    lw.open(uri, progress=False).create_index("tenant", kind=kind, include=["name", "id"], segments=2)
    lance.dataset(uri).delete("id IN (3, 17, 350)")
    where, columns = "tenant = 3 AND id < 380", ["name", "tenant", "id"]
    expected = lance.dataset(uri).to_table(filter=where, columns=columns)
    scan = resolve(uri, where, columns)

    remove_data(uri)

    assert run_scan(scan, LocalRunner()).equals(expected)
    told = explain(scan)
    assert (told.index_only, told.index_only_fragments) == (("tenant_idx",), 4)
    assert "4 fragments are not read: index tenant_idx has every column asked for" in told.to_text()
    assert told.measured is not None
    assert told.measured.rows == expected.num_rows
    assert 0 < told.measured.read_bytes < 20_000


def test_a_residual_is_evaluated_by_lance_on_the_kept_values(tmp_path: Path) -> None:
    uri = write_orders(tmp_path)
    lw.open(uri, progress=False).create_index(
        "tenant", kind="composite", include=["name", "amount", "`odd name`"]
    )
    where = "tenant IN (1, 2) AND `odd name` < 390 AND (upper(name) LIKE '%9' OR amount * 0.1 > 9.9 OR NOT (amount != 0.1))"
    expected = lance.dataset(uri).to_table(filter=where, columns=["name"])
    scan = resolve(uri, where, ["name"])
    assert scan.planned.plan.probed[0].residual is not None

    remove_data(uri)

    assert run_scan(scan, LocalRunner())["name"].to_pylist() == expected["name"].to_pylist()


def test_fragments_that_were_built_in_several_segments_come_in_the_order_of_the_table(tmp_path: Path) -> None:
    uri = write_orders(tmp_path)
    lw.open(uri, progress=False).create_index("tenant", kind="key", include=["id", "`odd name`"], segments=3)

    found = run_scan(resolve(uri, "tenant = 3", ["id", "`odd name`"]), LocalRunner())

    assert found.schema.names == ["id", "odd name"]
    assert found["id"].to_pylist() == found["odd name"].to_pylist() == [*range(3, ROWS, 7)]


def test_what_is_not_kept_is_read_from_the_table(tmp_path: Path) -> None:
    uri = write_orders(tmp_path)
    lw.open(uri, progress=False).create_index("tenant", kind="composite", include=["name"])

    for where, columns in (
        ("tenant = 3", ["name", "amount"]),
        ("tenant = 3 AND amount > 3", ["name"]),
        ("tenant = 3", ["name", "_rowid"]),
        ("tenant = 3", ["name", "_rowaddr"]),
        ("name = 'name 3'", ["name"]),
    ):
        scan = resolve(uri, where, columns)
        assert explain(scan).index_only == ()
        assert all(task.values is None for task in scan.tasks)


@pytest.mark.parametrize("stable_row_ids", [False, True])
@pytest.mark.parametrize("column", ["name", "tenant"])
def test_a_fragment_in_which_a_kept_column_was_rewritten_is_read_again(
    tmp_path: Path, column: str, stable_row_ids: bool
) -> None:
    uri = write_orders(tmp_path, stable_row_ids=stable_row_ids)
    lw.open(uri, progress=False).create_index("tenant", kind="composite", include=["name"])
    dataset = lance.dataset(uri)
    value = "new" if column == "name" else 3
    new = pa.table(
        {
            "id": pa.array(range(FRAGMENT), pa.int32()),
            column: pa.array([value] * FRAGMENT, dataset.schema.field(column).type),
        }
    )

    updated, fields = dataset.get_fragment(0).update_columns(new, left_on="id", right_on="id")
    operation = lance.LanceOperation.Update(updated_fragments=[updated], fields_modified=fields)
    lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)

    scan = resolve(uri, "tenant = 3", ["name"])
    expected = lance.dataset(uri).to_table(filter="tenant = 3", columns=["name"])["name"].to_pylist()
    assert run_scan(scan, LocalRunner())["name"].to_pylist() == expected
    assert explain(scan).index_only_fragments == 3


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_rows_updated_and_appended_are_read_from_the_table(tmp_path: Path, stable_row_ids: bool) -> None:
    uri = write_orders(tmp_path, stable_row_ids=stable_row_ids)
    lw.open(uri, progress=False).create_index("tenant", kind="composite", include=["name"])
    lance.dataset(uri).update({"name": "'changed'"}, where="id % 21 = 3")
    lance.write_dataset(lance.dataset(uri).to_table(limit=50), uri, mode="append")

    scan = resolve(uri, "tenant = 3", ["name"])

    expected = lance.dataset(uri).to_table(filter="tenant = 3", columns=["name"])["name"].to_pylist()
    assert sorted(run_scan(scan, LocalRunner())["name"].to_pylist(), key=str) == sorted(expected, key=str)
    assert "changed" in expected
    assert explain(scan).index_only_fragments == 4


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_rows_that_a_compaction_moved_are_read_from_the_table(tmp_path: Path, stable_row_ids: bool) -> None:
    uri = write_orders(tmp_path, stable_row_ids=stable_row_ids)
    lw.open(uri, progress=False).create_index("tenant", kind="composite", include=["name"])
    options = {} if stable_row_ids else {"defer_index_remap": True}
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=250, **options)

    scan = resolve(uri, "tenant = 3", ["name"])

    expected = lance.dataset(uri).to_table(filter="tenant = 3", columns=["name"])["name"].to_pylist()
    assert run_scan(scan, LocalRunner())["name"].to_pylist() == expected
    assert all(task.values is None for task in scan.tasks)


def test_kept_columns_are_found_by_id_when_they_are_renamed(tmp_path: Path) -> None:
    uri = write_orders(tmp_path)
    lw.open(uri, progress=False).create_index("tenant", kind="composite", include=["name"])
    lance.dataset(uri).alter_columns({"path": "name", "name": "label"})
    lance.dataset(uri).add_columns({"name": "'other'"})

    old, new = resolve(uri, "tenant = 3", ["label"]), resolve(uri, "tenant = 3", ["name"])

    assert run_scan(old, LocalRunner())["label"].to_pylist()[:2] == ["name 3", None]
    assert explain(old).index_only == ("tenant_idx",)
    assert set(run_scan(new, LocalRunner())["name"].to_pylist()) == {"other"}
    assert explain(new).index_only == ()


def test_damaged_values_cost_a_read_of_the_table_and_strict_says_so(tmp_path: Path) -> None:
    uri = write_orders(tmp_path)
    table = lw.open(uri, progress=False)
    table.create_index("tenant", kind="composite", include=["name"], segments=1)
    (file,) = Path(uri, "_indices").glob("*/_values")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    expected = lance.dataset(uri).to_table(filter="tenant = 3", columns=["name"])

    found = run_scan(resolve(uri, "tenant = 3", ["name"], strict=False), LocalRunner())

    assert found.equals(expected)
    with pytest.raises(lw.LancewrightError, match="checksum"):
        run_scan(resolve(uri, "tenant = 3", ["name"]), LocalRunner())


def test_counting_and_limits_are_those_of_a_scan(tmp_path: Path) -> None:
    uri = write_orders(tmp_path)
    lw.open(uri, progress=False).create_index("tenant", kind="composite", include=["name"])
    request = ScanRequest(where="tenant = 3", columns=("name",), settings=EAGER, limit=5)

    scan = resolve_scan(plan_scan(table_ref(uri), request, 1))

    assert run_scan(scan, LocalRunner()).num_rows == 5
    assert count_scan(resolve(uri, "tenant = 3", ["name"]), LocalRunner()) == 57
    assert count_scan(resolve(uri, "tenant = 3 AND name IS NULL", ["name"]), LocalRunner()) == 12


@pytest.mark.parametrize(
    ("include", "problem"),
    [
        (["nobody"], "Column 'nobody' is not in the table"),
        ("name", "is no list of columns"),
        (["tags"], "cannot be included"),
        (["color"], "cannot be included"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_any_task(
    tmp_path: Path, include: object, problem: str
) -> None:
    uri = write_orders(tmp_path)

    with pytest.raises(lw.InvalidRequestError) as raised:
        lw.open(uri, progress=False).create_index("tenant", kind="key", include=include)

    assert problem in str(raised.value)
    assert lance.dataset(uri).version == 1


def test_lances_own_kinds_keep_no_columns(tmp_path: Path) -> None:
    uri = write_orders(tmp_path)

    with pytest.raises(lw.InvalidRequestError, match="include"):
        lw.open(uri, progress=False).create_index("tenant", kind="btree", include=["name"])


def test_the_columns_of_an_index_are_its_keys_and_not_what_it_keeps(tmp_path: Path) -> None:
    uri = write_orders(tmp_path)
    table = lw.open(uri, progress=False)
    table.create_index("tenant", kind="key", include=["name"])

    (index,) = table.indexes()

    assert (index.name, index.columns, index.keys) == ("tenant_idx", ("tenant",), ("tenant",))
