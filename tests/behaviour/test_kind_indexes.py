"""What happens to indexes of our own kinds: plain Lance changes the table, files break, plugins go. Answers stay right."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from lancewright.kinds.contract import IndexKind
from lancewright.kinds.key.kind import KeyKind
from lancewright.kinds.plugins import PLUGINS, Plugins, register_kind
from lancewright.model.segment_details import details_from_bytes
from lancewright.table.commit import IndexChange, commit_segments
from lancewright.table.fragment_reuse import FRAGMENT_REUSE_NAME
from lancewright.table.location import table_ref
from lancewright.testing.toys import ShelfKind

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 400_000
WHERE = "tenant = 7 AND at BETWEEN 1000 AND 1400"


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return write(tmp_path, stable_row_ids=request.param)


def write(folder: Path, *, stable_row_ids: bool = False) -> str:
    random = np.random.default_rng(2)
    rows = pa.table(
        {
            "tenant": pa.array(random.integers(0, 20, ROWS), pa.int32()),
            "at": pa.array(np.arange(ROWS), pa.int64()),
            "code": pa.array([f"code-{number}" for number in random.permutation(ROWS)]),
            "amount": pa.array(random.normal(size=ROWS)),
        }
    )
    uri = str(folder / "orders")
    lance.write_dataset(rows, uri, max_rows_per_file=ROWS // 6, enable_stable_row_ids=stable_row_ids)
    return uri


def index(uri: str) -> lw.Table:
    table = lw.open(uri, progress=False)
    table.create_index(["tenant", "at"], kind="composite", name="by_tenant")
    table.create_index("code", kind="key", name="by_code")
    return table


def ids(table: lw.Table, where: str, **options: Any) -> list[int]:
    return sorted(table.scan(where, columns=["at"], **options).to_arrow()["at"].to_pylist())


def reasons(table: lw.Table, where: str, *, analyze: bool = True) -> dict[str, str]:
    return {line.index: line.reason for line in table.explain(where, analyze=analyze).indexes}


def segment_folders(table: lw.Table, name: str, uri: str) -> list[Path]:
    return [Path(uri) / "_indices" / segment.uuid for segment in table.snapshot().segments_named(name)]


def test_indexes_answer_like_a_scan_through_append_delete_update_and_compaction(uri: str) -> None:
    table = index(uri)
    changes: list[Any] = [
        lambda data: data.insert(data.to_table(filter="at < 1200"), mode="append"),
        lambda data: data.delete("at % 7 = 0"),
        lambda data: data.update({"amount": "0.0"}, where="at BETWEEN 1100 AND 1200"),
        lambda data: data.update({"tenant": "7"}, where="at BETWEEN 1300 AND 1310"),
        lambda data: data.optimize.compact_files(target_rows_per_fragment=ROWS),
        lambda data: data.delete("at % 11 = 0"),
        lambda data: data.optimize.compact_files(target_rows_per_fragment=2 * ROWS),
        lambda data: data.optimize.optimize_indices(),
        lambda data: data.cleanup_old_versions(),
    ]

    for change in changes:
        change(lance.dataset(uri))

        for where in (WHERE, "code IN ('code-5', 'code-1007')"):
            assert ids(table, where, strict=True) == ids(table, where, use_indexes=False)
        assert "USED" in reasons(table, WHERE).values()


def test_a_table_with_such_an_index_is_still_compacted_by_plain_lance(uri: str) -> None:
    index(uri)

    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=ROWS)

    assert len(lance.dataset(uri).get_fragments()) <= 2  # no more than the segments, which are not mixed


def test_rows_that_nothing_leads_to_any_more_are_scanned(tmp_path: Path) -> None:
    """Lance's memory of a deferred compaction was removed before the segments were built anew."""
    uri = write(tmp_path)
    table = index(uri)
    expected = ids(table, WHERE)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=ROWS, defer_index_remap=True)
    assert reasons(table, WHERE)["by_tenant"] == "USED"
    snapshot = table.snapshot()

    notes = snapshot.segments_named(FRAGMENT_REUSE_NAME)
    commit_segments(table_ref(uri), snapshot, IndexChange(remove=notes))

    assert ids(table, WHERE) == expected
    assert reasons(table, WHERE)["by_tenant"] == "NO_COVERAGE"


def test_deleted_rows_are_not_counted(uri: str) -> None:
    table = index(uri)

    lance.dataset(uri).delete("at BETWEEN 1000 AND 1200")

    assert table.scan(WHERE).count() == table.scan(WHERE, use_indexes=False).count()


def test_a_flipped_bit_costs_a_scan_and_is_named(uri: str) -> None:
    table = index(uri)
    expected = ids(table, WHERE)
    for folder in segment_folders(table, "by_tenant", uri):
        for file in folder.iterdir():
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 4
            file.write_bytes(bytes(content))
    clear_cache()

    explained = table.explain(WHERE, analyze=True)

    assert ids(table, WHERE) == expected
    (line,) = [line for line in explained.indexes if line.index == "by_tenant"]
    assert line.reason == "BROKEN_SEGMENT"
    assert "by_tenant" in line.explanation or "checksum" in line.explanation
    with pytest.raises(lw.CorruptIndexError):
        ids(table, WHERE, strict=True)


@pytest.mark.parametrize("name", ["codes", "rows", "segment.header"])
@pytest.mark.parametrize("left", [0.0, 0.2, None], ids=["empty", "cut", "gone"])
def test_a_file_cut_short_or_gone_costs_a_scan(tmp_path: Path, name: str, left: float | None) -> None:
    uri = write(tmp_path)
    table = index(uri)
    expected = ids(table, WHERE)
    for folder in segment_folders(table, "by_tenant", uri):
        file = folder / name
        content = file.read_bytes()
        if left is None:
            file.unlink()
        else:
            file.write_bytes(content[: int(len(content) * left)])
    clear_cache()

    assert ids(table, WHERE) == expected
    assert reasons(table, WHERE)["by_tenant"] == "BROKEN_SEGMENT"


def test_a_kind_that_is_not_installed_costs_a_scan_and_is_named(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = index(uri)
    expected = ids(table, WHERE)
    monkeypatch.setattr(PLUGINS, "_built_in", {})

    assert ids(table, WHERE) == expected
    assert reasons(table, WHERE, analyze=False)["by_tenant"] == "NO_PLUGIN"
    assert {info.name: info.kind for info in table.indexes()}["by_tenant"] == "composite"
    with pytest.raises(lw.UnsupportedError, match="NO_PLUGIN"):
        ids(table, WHERE, strict=True)


def test_a_newer_format_costs_a_scan_and_is_named(uri: str, kinds: None) -> None:
    class Later(KeyKind):
        writes = 2
        reads = frozenset({1, 2})

    register_kind(Later, replace=True)
    table = index(uri)
    PLUGINS.unregister("key")

    found = reasons(table, "code = 'code-5'", analyze=False)

    assert found["by_code"] == "FORMAT_TOO_NEW"
    assert len(ids(table, "code = 'code-5'")) == 1


def test_an_old_format_that_is_no_longer_read_costs_a_scan(uri: str, kinds: None) -> None:
    table = index(uri)

    class Later(KeyKind):
        writes = 2
        reads = frozenset({2})

    register_kind(Later, replace=True)

    assert reasons(table, "code = 'code-5'", analyze=False)["by_code"] == "FORMAT_OLD_REBUILD"


def test_a_kind_that_fails_costs_a_scan_and_is_named(uri: str, kinds: None) -> None:
    class FailsToPlan(KeyKind):
        def plan(self, *_asked: Any) -> Any:
            raise ZeroDivisionError("oh no")

    class FailsToLookUp(KeyKind):
        def open(self, *_asked: Any) -> Any:
            raise ZeroDivisionError("oh no")

    table = index(uri)
    for broken, reason in ((FailsToPlan, "PLUGIN_FAILED"), (FailsToLookUp, "BROKEN_SEGMENT")):
        register_kind(broken, replace=True)

        assert len(ids(table, "code = 'code-5'")) == 1
        assert reasons(table, "code = 'code-5'")["by_code"] == reason
        with pytest.raises(lw.LancewrightError, match="oh no"):
            ids(table, "code = 'code-5'", strict=True)


def test_rows_that_do_not_exist_are_not_believed(uri: str, kinds: None) -> None:
    class Dreams(KeyKind):
        def open(self, spec: Any, store: Any) -> Any:
            reader = super().open(spec, store)
            reader.lookup = lambda _probe: __import__("pyroaring").BitMap([10**9])  # type: ignore[method-assign]
            return reader

    table = index(uri)
    register_kind(Dreams, replace=True)

    assert len(ids(table, "code = 'code-5'")) == 1
    assert reasons(table, "code = 'code-5'")["by_code"] == "BROKEN_SEGMENT"


def test_a_builder_that_raises_halfway_leaves_the_table_and_no_files(uri: str, kinds: None) -> None:
    class Breaks(ShelfKind):
        def build(self, _spec: Any, _rows: Any, out: Any) -> Any:
            with out.create("half") as file:
                file.write(b"x" * 100)
            raise ZeroDivisionError("halfway")

    register_kind(Breaks)
    table = lw.open(uri, progress=False)

    with pytest.raises(lw.LancewrightError, match="halfway"):
        table.create_index("amount", kind="shelf")

    assert not table.indexes()
    assert not [path for path in (Path(uri) / "_indices").rglob("*") if path.is_file()]


def test_a_summary_that_is_too_large_is_refused(uri: str, kinds: None) -> None:
    class Talks(ShelfKind):
        def summarise(self, _values: Any) -> bytes:
            return b"x" * ((64 << 10) + 1)

    register_kind(Talks)

    with pytest.raises(lw.InvalidRequestError, match="summary of 65,537 bytes"):
        lw.open(uri, progress=False).create_index("amount", kind="shelf")


def test_a_kind_without_a_required_method_is_refused() -> None:
    class Half(IndexKind):
        name = "half"

    with pytest.raises(lw.InvalidRequestError, match="Half lacks build, open, plan, validate"):
        register_kind(Half)


def test_a_name_is_given_once(kinds: None) -> None:
    with pytest.raises(lw.InvalidRequestError, match="already"):
        register_kind(KeyKind)
    register_kind(ShelfKind)
    with pytest.raises(lw.InvalidRequestError, match="already"):
        register_kind(ShelfKind)


def test_a_worker_with_another_version_of_a_kind_is_refused() -> None:
    driver, worker = Plugins(), Plugins()
    ref = driver.ref("key")
    assert ref is not None

    with pytest.raises(lw.UnsupportedError, match="the driver of lancewright 9"):
        worker.load_ref(replace(ref, version="9"))
    with pytest.raises(lw.UnsupportedError, match="cannot be used on this worker"):
        Plugins({}).load_ref(replace(ref, target="not_there:Kind"))


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (["tenant", "at"], {"kind": "btree"}, "takes one column"),
        (["tenant", "tenant"], {"kind": "composite"}, "named twice"),
        (["tenant", "nothing"], {"kind": "composite"}, "not in the table"),
        (["tenant"], {"kind": "composite", "page_rows": 5}, "no parameter 'page_rows'"),
        (["tenant"], {"kind": "composit"}, "Did you mean 'composite'"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_any_task(
    tmp_path: Path, columns: list[str], options: dict[str, Any], said: str
) -> None:
    table = lw.open(write(tmp_path), progress=False)

    with pytest.raises(lw.InvalidRequestError, match=said):
        table.create_index(columns, **options)


def test_the_manifest_says_enough_to_plan_without_opening_a_file(uri: str) -> None:
    table = index(uri)
    for segment in table.snapshot().segments_named("by_tenant"):
        details = details_from_bytes(segment.details)
        assert json.loads(details.summary)["keyed"] == details.rows

    assert reasons(table, WHERE, analyze=False)["by_tenant"] == "USED"


@pytest.fixture
def kinds() -> Iterator[None]:
    """What a test registers is gone after it."""
    yield
    for name in ("key", "shelf"):
        PLUGINS.unregister(name)


def clear_cache() -> None:
    from lancewright.kinds.segment.store import BLOCKS

    BLOCKS.clear()
