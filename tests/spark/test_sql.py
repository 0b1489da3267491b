"""SQL over Lance tables, on a classic and on a Connect session: table functions, statements about indexes, the rest as ever."""

# ruff: noqa: S608 - the queries are the tests' own

from __future__ import annotations

import datetime as dt
import io
from contextlib import redirect_stdout
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancewright as lw
from support.searching import WIDTH, add_text_index, add_vector_index, write_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERY = [float(x) for x in np.arange(WIDTH) - 3.5]
VECTOR = f"array({', '.join(map(str, QUERY))})"


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("sql")
    uri = write_rows(path, 240, fragments=4)
    add_vector_index(uri, [[0, 1], [2]])
    add_text_index(uri, [[0, 1, 2], [3]])
    lance.dataset(uri).create_scalar_index("id", "BTREE", name="by_id")
    return uri


@pytest.fixture(scope="module", params=["classic", "connect"])
def session(request: pytest.FixtureRequest) -> Any:
    """Any: the two kinds of session share no public base."""
    spark = request.getfixturevalue("spark" if request.param == "classic" else "connect")
    lw.register(spark)
    return spark


def asked(spark: SparkSession, query: str, *, through_lw: bool, **options: Any) -> Any:
    return lw.sql(spark, query, **options) if through_lw else spark.sql(query, **options)


@pytest.mark.parametrize("through_lw", [False, True], ids=["spark.sql", "lw.sql"])
def test_a_scan_gives_the_rows_of_the_table(session: SparkSession, uri: str, *, through_lw: bool) -> None:
    query = f"SELECT id, vector FROM lance_scan('{uri}', where => 'id < 7', columns => array('id', 'vector')) AS s WHERE s.id > 3"

    found = asked(session, query, through_lw=through_lw).collect()

    local = lw.open(uri, progress=False).scan("id > 3 AND id < 7").to_arrow().to_pylist()
    assert sorted((row.id, row.vector) for row in found) == [(row["id"], row["vector"]) for row in local]


@pytest.mark.parametrize("through_lw", [False, True], ids=["spark.sql", "lw.sql"])
def test_searches_find_what_the_local_process_finds(
    session: SparkSession, uri: str, *, through_lw: bool
) -> None:
    table = lw.open(uri, progress=False)
    near = table.search(QUERY, k=5, columns=["id", "_rowid"], where="id < 100", nprobes=64).to_arrow()
    texts = table.search(text="alpha beta", k=5, columns=["id"], operator="and").to_arrow()
    both = table.hybrid_search(QUERY, "gamma", k=5, columns=["id"]).to_arrow()

    queries = {
        f"lance_vector_search('{uri}', {VECTOR}, k => 5, columns => array('id', '_rowid'), "
        "where => 'id < 100', nprobes => 64)": near,
        f"lance_text_search('{uri}', 'alpha beta', k => 5, columns => array('id'), operator => 'and')": texts,
        f"lance_hybrid_search('{uri}', {VECTOR}, 'gamma', k => 5, columns => array('id'))": both,
    }
    for call, expected in queries.items():
        frame = asked(session, f"SELECT * FROM {call}", through_lw=through_lw)
        assert frame.columns == expected.schema.names
        assert [tuple(row) for row in frame.collect()] == [
            tuple(row.values()) for row in expected.to_pylist()
        ]


@pytest.mark.parametrize("through_lw", [False, True], ids=["spark.sql", "lw.sql"])
def test_indexes_and_plans_are_told_as_rows(session: SparkSession, uri: str, *, through_lw: bool) -> None:
    listed = asked(session, f"SELECT name, kind FROM lance_indexes('{uri}')", through_lw=through_lw)
    plan = asked(
        session, f"SELECT index, used, reason FROM lance_explain('{uri}', 'id = 3')", through_lw=through_lw
    )

    assert {tuple(row) for row in listed.collect()} == {
        ("by_id", "btree"),
        ("texts", "inverted"),
        ("vectors", "ivf_flat"),
    }
    assert {row["index"] for row in plan.collect()} == {"by_id", "texts", "vectors"}


def test_values_are_bound_and_tables_joined_in_one_query(session: SparkSession, uri: str) -> None:
    query = f"""
        SELECT t.id, :who AS who, '{{not a frame}}' AS braces
        FROM lance_vector_search(:table, :q, k => 3, columns => array('id')) AS n
        JOIN lance.`{uri}` AS t ON t.id = n.id
    """

    found = lw.sql(session, query, {"table": uri, "q": QUERY, "who": "it's; DROP TABLE x --"}).collect()

    expected = lw.open(uri, progress=False).search(QUERY, k=3, columns=["id"]).to_arrow()["id"].to_pylist()
    assert sorted(row.id for row in found) == sorted(expected)
    assert {(row.who, row.braces) for row in found} == {("it's; DROP TABLE x --", "{not a frame}")}
    unnamed = lw.sql(session, f"SELECT id + ? AS x FROM lance_scan('{uri}', where => ?)", [100, "id = 3"])
    assert unnamed.collect()[0].x == 103


def test_what_is_bound_cannot_leave_its_place(session: SparkSession, uri: str) -> None:
    evil = "id = 1) OR (id = 2"

    for bound in ({"where": evil}, {"where": "id = 1; DROP TABLE x"}):
        with pytest.raises(lw.InvalidRequestError):
            lw.sql(session, f"SELECT * FROM lance_scan('{uri}', where => :where)", bound)
    with pytest.raises(lw.NotFoundError):
        lw.sql(session, "SELECT * FROM lance_scan(:t)", {"t": f"{uri}`; DROP TABLE x"})


def test_everything_else_is_sparks(session: SparkSession) -> None:
    frame = session.createDataFrame([(1,)], "a int")

    assert lw.sql(session, "SELECT '{a}' AS b").collect()[0].b == "{a}"
    assert lw.sql(session, "SELECT a + :one AS b FROM {t}", {"one": 1}, t=frame).collect()[0].b == 2
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        lw.sql(session, "SELEC 1").collect()


def test_an_index_is_created_shown_explained_and_dropped(session: SparkSession, tmp_path: Path) -> None:
    uri = write_rows(tmp_path, 240, fragments=4)
    create = f"CREATE INDEX IF NOT EXISTS `by group` ON `{uri}` USING bitmap (`group`) WITH (segments = 1)"

    created, again = (lw.sql(session, create).collect()[0] for _ in range(2))
    shown = lw.sql(session, f"SHOW INDEXES ON lance.`{uri}`").collect()
    plan = lw.sql(session, f"EXPLAIN INDEX SELECT id FROM lance.`{uri}` WHERE `group` = 3").collect()
    dropped = lw.sql(session, f"DROP INDEX `by group` ON `{uri}`").collect()[0]
    gone = lw.sql(session, f"DROP INDEX IF EXISTS `by group` ON `{uri}`").collect()[0]

    assert (created["name"], created.kind, created.created, created.rows) == ("by group", "bitmap", True, 240)
    assert again.created is False
    assert [(row["name"], row["columns"], row.covered_rows, row.gap_rows) for row in shown] == [
        ("by group", ["group"], 240, 0)
    ]
    assert "index by group (bitmap)" in plan[0].plan
    assert (dropped.dropped, gone.dropped, gone.version) == (True, False, None)
    assert lw.sql(session, f"SHOW INDEXES ON `{uri}`").collect() == []
    with pytest.raises(lw.NotFoundError):
        lw.sql(session, f"DROP INDEX nothing ON `{uri}`")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("lance_scan()", "not given 'table'"),
        ("lance_scan('{uri}', colums => array('id'))", "takes no 'colums'"),
        ("lance_scan('{uri}', where => 'nobody = 1')", "nobody"),
        ("lance_vector_search('{uri}', array(1.0))", "dimensions"),
        ("lance_vector_search('{uri}', array(1.0), k => 0)", "k=0"),
        ("lance_vector_search('{uri}')", "not given 'vector'"),
        ("lance_text_search('{uri}', 'a', k => 'x')", "k='x'"),
    ],
)
def test_a_wrong_call_is_told_the_same_way_everywhere(
    session: SparkSession, uri: str, call: str, message: str
) -> None:
    query = f"SELECT * FROM {call.format(uri=uri)}"

    with pytest.raises(lw.InvalidRequestError, match=message):
        lw.sql(session, query)
    with pytest.raises(Exception, match=message):
        session.sql(query).collect()


def test_a_call_with_a_column_is_refused(session: SparkSession, uri: str) -> None:
    query = f"SELECT * FROM range(2) AS r, LATERAL lance_scan('{uri}', limit => r.id)"

    with pytest.raises(Exception, match="Give it constants"):
        session.sql(query).collect()


def test_credentials_of_the_session_show_in_no_plan_and_no_error(session: SparkSession, uri: str) -> None:
    lw.register(session, storage_options={"aws_secret_access_key": "hidden-secret"})
    try:
        frame = session.sql(f"SELECT id FROM lance_scan('{uri}') WHERE id < 3")
        with redirect_stdout(io.StringIO()) as told:
            frame.explain(extended=True)
        with pytest.raises(Exception, match="InvalidRequestError") as raised:
            session.sql(f"SELECT * FROM lance_scan('{uri}', where => 'nobody = 1')").collect()
        assert sorted(row.id for row in frame.collect()) == [0, 1, 2]
    finally:
        lw.register(session)

    assert "lance_scan" in told.getvalue()
    assert "hidden-secret" not in f"{told.getvalue()} {raised.value} {frame!r}"
    made = lw.sql(
        session,
        f"SELECT id FROM lance_scan('{uri}') WHERE id < 3",
        storage_options={"aws_secret_access_key": "hidden-secret"},
    )
    with redirect_stdout(io.StringIO()) as told:
        made.explain(extended=True)
    assert "hidden-secret" not in told.getvalue()


def test_a_view_of_a_function_reads_the_table_of_the_day(session: SparkSession, tmp_path: Path) -> None:
    uri = write_rows(tmp_path, 20, fragments=1)
    lw.sql(session, f"CREATE OR REPLACE TEMPORARY VIEW lance_view AS SELECT id FROM lance_scan('{uri}')")
    before = session.sql("SELECT count(*) AS n FROM lance_view").collect()[0].n

    lance.dataset(uri).delete("id < 5")

    assert before == 20
    assert session.sql("SELECT count(*) AS n FROM lance_view").collect()[0].n == 15


def test_lw_sql_reads_with_all_executors_and_a_function_of_spark_in_one_task(
    session: SparkSession, tmp_path: Path
) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": range(4_000)}), uri, max_rows_per_file=1_000)
    query = f"SELECT DISTINCT spark_partition_id() AS task FROM lance_scan('{uri}')"

    assert lw.sql(session, query).count() > 1
    assert session.sql(query).count() == 1


def test_types_come_through_a_function_as_through_the_data_source(
    session: SparkSession, tmp_path: Path
) -> None:
    noon = dt.datetime(2026, 11, 1, 12, 30, tzinfo=dt.UTC)
    rows = pa.table(
        {
            "naive": pa.array([noon.replace(tzinfo=None), None], pa.timestamp("ms")),
            "zoned": pa.array([noon, None], pa.timestamp("us", tz="Europe/Oslo")),
            "day": pa.array([noon.date(), None]),
            "long": pa.array([dt.timedelta(days=1, seconds=1), None], pa.duration("us")),
            "price": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
            "wide": pa.array([2**64 - 1, None], pa.uint64()),
            "deep": pa.array([{"x": 1, "y": [{"z": "a"}, None]}, None]),
            "pairs": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())),
            "vector": pa.array([[1.5, 2.5], None], pa.list_(pa.float16(), 2)),
            "bytes": pa.array([b"\x00\xff", None]),
            "odd name": pa.array([True, None]),
        }
    )
    uri = str(tmp_path / "types")
    lance.write_dataset(rows, uri)
    session.conf.set("spark.sql.session.timeZone", "America/New_York")

    try:
        loaded = session.read.format("lancewright").load(uri)
        called = session.sql(f"SELECT * FROM lance_scan('{uri}')")
        through_lw = lw.sql(session, f"SELECT * FROM lance_scan('{uri}')")

        expected = loaded.toArrow().to_pylist()
        assert called.dtypes == through_lw.dtypes == loaded.dtypes
        assert called.toArrow().to_pylist() == expected
        assert through_lw.toArrow().to_pylist() == expected
    finally:
        session.conf.unset("spark.sql.session.timeZone")
