"""Queries on files and tails, against a look at every record."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from bmq.index.answer import Answer, Row
from bmq.index.engine import EngineLimits, QueryEngine
from bmq.index.errors import IndexMismatch, QueryRefused, QueryTimedOut, QueryTooWide, SourceAway
from bmq.index.file_planning import IndexFiles
from bmq.index.query import IndexQuery, selection_of
from bmq.table_definitions.stored import StoredTable
from tests.fakes.indexed_topic import IndexedTopic
from tests.unit.index.indexes import (
    FORM,
    HOUR_MS,
    NOW_MS,
    TOPIC_ID,
    IndexWriter,
    engine_on,
    filled_topic,
    index_definition,
    order,
    stored_index,
)

pytestmark = pytest.mark.unit

RECORDS = 300
INDEXED = {0: 90, 1: 60}


class Case:
    """A topic of which a part is indexed."""

    def __init__(self, warehouse: Path, **changes: Any) -> None:
        self.warehouse = warehouse
        self.stored = stored_index(index_definition(**changes))
        self.topic = filled_topic(RECORDS)
        self.writer = IndexWriter(warehouse, self.stored, self.topic)
        self.writer.index_to({0: 50, 1: 20})
        self.writer.index_to(INDEXED)
        self.engine = engine_on(warehouse, self.topic)

    def ask(self, **form: Any) -> Answer:
        return self.engine.query(self.stored, IndexQuery.from_json(json.dumps(form)))

    def pages(self, **form: Any) -> Iterator[Answer]:
        answer = self.ask(**form)
        yield answer
        while answer.continuation is not None:
            answer = self.ask(**form, continuation=answer.continuation)
            yield answer


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """For tests that only ask."""
    case = Case(tmp_path_factory.mktemp("warehouse"))
    yield case
    case.engine.close()


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    made = Case(tmp_path)
    yield made
    made.engine.close()


def places(rows: Any) -> list[tuple[int, int]]:
    return [(row.partition, row.offset) for row in rows]


def wanted(case: Case, matches: Callable[[dict[str, Any], int], bool]) -> set[tuple[int, int]]:
    """Positions of the orders that match, of all that the log has."""
    found = set()
    for partition, log in case.topic.logs.items():
        for record in log:
            assert record.value is not None
            assert record.timestamp_ms is not None
            if record.value != b"no order" and matches(json.loads(record.value), record.timestamp_ms):
                found.add((partition, record.offset))
    return found


@pytest.mark.parametrize(
    ("form", "matches"),
    [
        ({"equals": {"customer": "c3"}}, lambda o, t: o["customer"]["id"] == "c3"),
        ({"equals": {"customer": "nobody"}}, lambda o, t: False),
        ({"equals": {"is_gift": True, "city": "Bern"}}, lambda o, t: o["is_gift"] and o["city"] == "Bern"),
        ({"equals": {"price": "7.50"}}, lambda o, t: o["price"] == "7.50"),
        (
            {"ranges": {"price": {"from": 10, "to": "20.5"}}},
            lambda o, t: o["price"] is not None and 10 <= float(o["price"]) < 20.5,
        ),
        ({"ranges": {"city": {"from": "Ber"}}}, lambda o, t: o["city"] >= "Ber"),
        ({"prefixes": {"city": "Ber"}}, lambda o, t: o["city"].startswith("Ber")),
        ({"prefixes": {"city": "Bern"}, "equals": {"customer": "c1"}}, lambda o, t: o["city"] == "Bern" and o["customer"]["id"] == "c1"),
        ({"from": NOW_MS - HOUR_MS}, lambda o, t: t >= NOW_MS - HOUR_MS),
        ({"from": "2025-11-24T12:00:00Z", "to": "2025-11-24T13:00:00+00:00"}, lambda o, t: NOW_MS - 4 * HOUR_MS <= t < NOW_MS - 3 * HOUR_MS),
        ({"ranges": {"paid_at": {"to": NOW_MS - 100_000}}}, lambda o, t: o["paid_at"] < NOW_MS - 100_000),
        ({}, lambda o, t: True),
    ],
)  # fmt: skip
def test_an_answer_has_what_a_look_at_every_record_finds(
    shared: Case, form: dict[str, Any], matches: Callable[[dict[str, Any], int], bool]
) -> None:
    answer = shared.ask(**form, limit=1_000)
    assert len(answer.rows) == len(set(places(answer.rows)))
    assert set(places(answer.rows)) == wanted(shared, matches)
    assert answer.is_complete
    assert {each.partition: (each.indexed_to, each.complete_to, each.end) for each in answer.partitions} == {
        0: (90, 150, 150),
        1: (60, 150, 150),
    }


def test_a_row_has_its_fields(shared: Case) -> None:
    form = shared.ask(equals={"customer": "c3"}, limit=1).to_json()
    assert form["rows"] == [
        {
            "partition": 1,
            "offset": 1,
            "timestamp": "2025-11-24T11:04:00.000000Z",
            "fields": {
                "customer": "c3",
                "price": "1.50",
                "city": "Berlin",
                "paid_at": "2025-11-24T15:59:57.000000Z",
                "is_gift": False,
            },
        }
    ]
    assert json.loads(json.dumps(form)) == form


@pytest.mark.parametrize("order_by", [None, "price", "city", "paid_at"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_pages_are_the_whole_answer_in_order(shared: Case, order_by: str | None, direction: str) -> None:
    query = {"order": direction, "order_by": order_by, "prefixes": {"city": "Be"}}
    whole = shared.ask(**query, limit=1_000).rows
    by_page = [row for answer in shared.pages(**query, limit=49) for row in answer.rows]
    assert places(by_page) == places(whole)

    def key(row: Row) -> Any:
        return (row.timestamp_micros if order_by is None else row.fields[order_by], row.partition, row.offset)

    with_value = [row for row in whole if key(row)[0] is not None]
    assert with_value == sorted(with_value, key=key, reverse=direction == "desc")
    assert whole[: len(with_value)] == with_value, "rows without a value are last"
    assert len(with_value) < len(whole) or order_by != "price"


def test_pages_stay_as_they_were_while_records_come_and_are_indexed(case: Case) -> None:
    before = places(case.ask(equals={"customer": "c3"}, limit=1_000).rows)
    pages = case.pages(equals={"customer": "c3"}, limit=5)
    seen = places(next(pages).rows)
    case.topic.append(0, [order(3)] * 5, timestamp_ms=NOW_MS - 10_000_000)  # older than most rows
    case.writer.index_to({0: 155, 1: 150})
    for page in pages:
        seen += places(page.rows)
    assert seen == before
    assert case.topic.scanned[-1] == {1: (60, 150), 0: (90, 150)}, "once all is indexed, no page reads the tail"
    assert len(case.ask(equals={"customer": "c3"}, limit=1_000).rows) == len(before) + 5


def test_a_tail_that_is_cut_off_is_told(case: Case) -> None:
    case.topic.records_at_once = 40
    answer = case.ask(limit=1_000)
    assert not answer.is_complete
    ends = {each.partition: each.complete_to for each in answer.partitions}
    assert sum(ends.values()) == 90 + 60 + 40
    shown = set(places(answer.rows))
    assert shown == {(p, o) for p, o in wanted(case, lambda o, t: True) if o < ends[p]}
    assert answer.tail_records == 40


def test_before_the_first_commit_all_is_tail(tmp_path: Path) -> None:
    topic, stored = filled_topic(20), stored_index(index_definition())
    engine = engine_on(tmp_path, topic)
    answer = engine.query(stored, IndexQuery(equals={"customer": "c3"}))
    assert places(answer.rows) == [(1, 1), (1, 6)]
    assert answer.estimate.files == 0
    assert answer.is_complete
    engine.close()


def test_an_empty_topic_has_no_rows(tmp_path: Path) -> None:
    engine = engine_on(tmp_path, IndexedTopic("orders", TOPIC_ID, 1))
    answer = engine.query(stored_index(index_definition()), IndexQuery(records=True))
    assert (answer.rows, answer.is_complete, answer.continuation) == ([], True, None)
    engine.close()


def test_deleted_records_are_hidden(case: Case) -> None:
    case.topic.log_starts = {0: 70, 1: 100}
    answer = case.ask(limit=1_000)
    assert set(places(answer.rows)) == {
        (p, o) for p, o in wanted(case, lambda o, t: True) if o >= case.topic.log_starts[p]
    }
    assert [each.log_start for each in answer.partitions] == [70, 100]


def test_compacted_records_are_hidden_where_whole_records_are_asked_for(case: Case) -> None:
    case.topic.compacted = {(0, 4), (1, 1)}
    positions = case.ask(equals={"customer": "c3"}, limit=1_000)
    assert (1, 1) in places(positions.rows), "a position alone is not looked up"
    whole = case.ask(equals={"customer": "c3"}, limit=1_000, records=True)
    assert places(whole.rows) == [place for place in places(positions.rows) if place != (1, 1)]
    assert whole.gone == 1
    first = whole.rows[0].to_json()["record"]
    assert first["headers"] == [{"key": "h", "value": "MQ=="}]
    assert all(row.record is not None and json.loads(row.record.value or b"")["customer"]["id"] == "c3" for row in whole.rows)  # fmt: skip


def test_many_bytes_of_records_make_more_pages(case: Case) -> None:
    engine = engine_on(case.warehouse, case.topic, record_bytes_max=300)
    found: list[tuple[int, int]] = []
    query, pages = IndexQuery(equals={"customer": "c3"}, records=True), 0
    while True:
        answer = engine.query(case.stored, query)
        found += places(answer.rows)
        pages += 1
        if answer.continuation is None:
            break
        query = query.model_copy(update={"continuation": answer.continuation})
    assert found == places(case.ask(equals={"customer": "c3"}, limit=1_000).rows)
    assert pages > 3
    engine.close()


def test_records_that_do_not_fit_are_counted(case: Case) -> None:
    misfits = sum(r.value == b"no order" for p, log in case.topic.logs.items() for r in log[INDEXED[p] :])
    assert case.ask().tail_misfits == misfits > 0


def test_rows_older_than_the_retention_are_hidden(tmp_path: Path) -> None:
    case = Case(tmp_path, index={"keys": [{"field": "customer"}], "retention_ms": HOUR_MS})
    answer = case.ask(limit=1_000)
    assert set(places(answer.rows)) == wanted(case, lambda o, t: t >= NOW_MS - HOUR_MS)
    assert case.ask(to=NOW_MS - 2 * HOUR_MS).rows == []
    case.engine.close()


def test_a_time_key_is_the_time_of_the_index(tmp_path: Path) -> None:
    keys = [{"field": "customer"}, {"field": "paid_at", "by": "time"}]
    case = Case(tmp_path, index={"keys": keys, "every": "day"})
    moment = NOW_MS - 100_000
    answer = case.ask(to=moment, order="desc", limit=1_000)
    assert set(places(answer.rows)) == wanted(case, lambda o, t: o["paid_at"] < moment)
    times = [row.fields["paid_at"] for row in answer.rows]
    assert times == sorted(times, reverse=True)  # type: ignore[type-var]
    case.engine.close()


def test_a_window_and_a_key_leave_files_out(shared: Case) -> None:
    everything, window = shared.ask(explain=True), shared.ask(explain=True, **{"from": NOW_MS - 5 * HOUR_MS, "to": NOW_MS - 4 * HOUR_MS})  # fmt: skip
    assert everything.estimate.files == everything.estimate.files_total > window.estimate.files > 0
    assert window.estimate.bytes < everything.estimate.bytes
    nobody = shared.ask(explain=True, equals={"customer": "nobody"})
    assert nobody.estimate.files == 0, "the least and greatest customers of all files leave it out"


def test_an_explained_query_reads_nothing(shared: Case) -> None:
    scans = len(shared.topic.scanned)
    answer = shared.ask(explain=True, equals={"customer": "c1"}, ranges={"paid_at": {"from": 0}}, limit=5)
    assert answer.rows == ()
    assert len(shared.topic.scanned) == scans
    text = "\n".join(answer.explanation)
    assert "where customer = c1 and paid_at >= 1970-01-01T00:00:00.000000Z" in text
    assert "customer has a key (exact)" in text
    assert "paid_at has no such key" in text
    assert "150 offsets of the topic" in text


def test_a_query_that_is_too_wide_is_refused_with_the_estimate(case: Case) -> None:
    engine = engine_on(case.warehouse, case.topic, file_bytes_max=500)
    with pytest.raises(
        QueryTooWide, match=r"it would read about \d+ bytes \(\d+ rows\) of \d+ of \d+ files, and 500 bytes"
    ):
        engine.query(case.stored, IndexQuery())
    # Footers show that no row group can have it, though the manifests' bounds allow the files.
    narrow = IndexQuery(equals={"customer": "c1"}, ranges={"price": {"from": "99999"}})
    assert places(engine.query(case.stored, narrow.model_copy(update={"explain": True})).rows) == []
    engine.close()


def test_the_manifests_estimate_stands_if_there_is_no_time_for_footers(case: Case) -> None:
    query = IndexQuery(equals={"customer": "c1"}, prefixes={"city": "Bern"})
    selection = selection_of(query, case.stored.definition, NOW_MS)
    clock = iter([1.0, 2.0])
    files = IndexFiles(f"file:{case.warehouse}", monotonic_s=lambda: next(clock))
    with pytest.raises(QueryTooWide, match=r"it would read about \d+ bytes \(\d+ rows\) of \d+ of \d+ files"):
        files.plan(files.state(case.stored), selection, 1, deadline_s=2.0)
    assert next(clock, None) is None, "one footer is read, and none past the deadline"


def test_a_query_ends_at_its_time(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_on(case.warehouse, case.topic, timeout_s=0.2)

    def endless(selection: Any, *rest: Any, **more: Any) -> Any:
        return "SELECT count(*) FROM range(10000000000) a, range(1000) b", []

    monkeypatch.setattr("bmq.index.engine.statement_of", lambda *a, **k: _Endless(*endless(None)))
    began_s = time.monotonic()
    with pytest.raises(QueryTimedOut, match=r"took longer than 0.2 s"):
        engine.query(case.stored, IndexQuery())
    assert time.monotonic() - began_s < 30
    monkeypatch.undo()
    engine._limits = EngineLimits(threads=1)
    assert engine.query(case.stored, IndexQuery()).rows, "the next query is answered"
    engine.close()


class _Endless:
    def __init__(self, sql: str, parameters: list[Any]) -> None:
        self.sql, self.parameters = sql, parameters


def test_memory_is_bounded(tmp_path: Path) -> None:
    engine = engine_on(tmp_path, filled_topic(4), memory_bytes=16 * 1024 * 1024)
    with (
        pytest.raises(QueryTooWide, match="more than 16777216 bytes of memory"),
        engine._bounded(time.monotonic() + 30),
    ):
        engine._database.execute("SELECT list(i) FROM range(100000000) t(i)").fetchall()
    engine.close()


def test_nothing_is_installed_or_fetched_by_the_database(shared: Case) -> None:
    with pytest.raises(duckdb.Error):
        shared.engine._database.execute("SELECT * FROM read_parquet('https://127.0.0.1:1/x.parquet')")


@pytest.mark.parametrize(
    ("spoil", "error", "sentence"),
    [
        (lambda t: setattr(t, "topic_id", uuid.UUID(int=8)), IndexMismatch, "was deleted and made again since index"),
        (lambda t: setattr(t, "exists", False), IndexMismatch, "does not exist any more"),
        (lambda t: setattr(t, "is_away", True), SourceAway, "no answer"),
    ],
)
def test_a_topic_that_is_another_one_or_away(
    case: Case, spoil: Callable[[IndexedTopic], None], error: type[Exception], sentence: str
) -> None:
    spoil(case.topic)
    with pytest.raises(error, match=sentence):
        case.ask()


def test_files_of_an_earlier_topic_are_not_mixed_in(tmp_path: Path) -> None:
    topic, stored = filled_topic(20), stored_index(index_definition())
    IndexWriter(tmp_path, stored, topic).index_to({0: 5, 1: 5}, topic_id=uuid.UUID(int=99))
    engine = engine_on(tmp_path, topic)
    with pytest.raises(IndexMismatch, match="is not the index's topic orders any more"):
        engine.query(stored, IndexQuery())
    engine.close()


def test_files_of_a_former_index_with_other_fields_are_not_mixed_in(case: Case) -> None:
    fields = [*FORM["fields"], {"name": "note", "type": "string"}]
    again = stored_index(index_definition(fields=fields), table_id=2)
    with pytest.raises(IndexMismatch, match="are those of a former one with other fields or keys"):
        case.engine.query(again, IndexQuery())


def test_files_that_are_gone_are_one_sentence(case: Case) -> None:
    for file in (case.warehouse / "tables" / "orders_index" / "data").rglob("*.parquet"):
        file.unlink()
    with pytest.raises(SourceAway, match="cannot be read, or was merged meanwhile; ask again"):
        case.ask()


def test_an_index_that_was_dropped_and_made_again_refuses_old_pages(case: Case) -> None:
    first = case.ask(limit=1)
    again: StoredTable = stored_index(case.stored.definition, table_id=2)
    engine: QueryEngine = case.engine
    with pytest.raises(QueryRefused, match="dropped and made again since the last page"):
        engine.query(again, IndexQuery(limit=1, continuation=first.continuation))
