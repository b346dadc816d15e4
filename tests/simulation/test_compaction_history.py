"""The rules for compacted logs find what they are there for: each broken once by hand."""

from __future__ import annotations

import random

import pytest

from bmq.protocol.batch_records import Record
from tests.simulation.compaction_history import (
    CompactionHistory,
    CompactionTerms,
    content_of,
    is_tombstone,
    key_of,
    name_of,
)
from tests.simulation.history import Violation
from tests.simulation.transaction_history import CommittedRead, Place, producer_and_count

pytestmark = pytest.mark.simulation

PLACE: Place = ("events", 0)
TERMS = CompactionTerms(delete_retention_s=5.0, reader_s=5.0, retention_s=None, is_deleting=False)


class Log:
    """A history, and records in a row, each of a producer of its own, acknowledged and committed."""

    def __init__(self, terms: CompactionTerms = TERMS) -> None:
        self.now_s = 0.0
        self.history = CompactionHistory(terms, ("a", "b"), 0.5, lambda: self.now_s, random.Random(1))
        self.records: list[tuple[int, bytes]] = []

    def write(self, key: str, *, is_tombstone: bool = False, ending: str = "committed") -> int:
        offset = len(self.records)
        name = name_of(f"p{offset}", 1, key, is_tombstone=is_tombstone)
        transaction = self.history.begin(f"p{offset}.1")
        self.history.send(transaction, PLACE, [name])
        self.history.acknowledge(PLACE, offset, [name])
        if ending != "open":
            transaction.ask()
        if ending == "committed":
            self.history.committed(transaction)
        elif ending == "aborted":
            self.history.aborted(transaction)
        self.records.append((offset, name))
        return offset

    def only(self, *offsets: int) -> list[tuple[int, bytes]]:
        return [self.records[offset] for offset in offsets]

    def read(self, *offsets: int) -> None:
        """All of the log is read, and holds these."""
        self.history.read_committed(CommittedRead(PLACE, 0, len(self.records), self.only(*offsets), []))

    def check(self, *offsets: int, compacted_to: int = 0) -> None:
        records = {PLACE: self.only(*offsets)}
        self.history.check_compacted(records, records, {PLACE: (compacted_to, 0)})


def test_a_record_says_who_sent_it_as_what() -> None:
    for is_gone in (False, True):
        name = name_of("w0.3", 17, "k1", is_tombstone=is_gone)
        assert producer_and_count(name) == ("w0.3", 17)
        assert (key_of(name), is_tombstone(name), content_of(name) is None) == (b"k1", is_gone, is_gone)
        history = Log().history
        assert history.value_of(history.record_of(name, 1)) == name
    with pytest.raises(Violation, match="has the key"):
        history.value_of(Record(b"k2", None, (("name", name),)))
    with pytest.raises(Violation, match="has the headers"):
        history.value_of(Record(b"k1", name))


def test_what_has_a_newer_record_of_its_key_may_go() -> None:
    log = Log()
    for key in "aba":
        log.write(key)
    log.read(0, 1, 2)
    log.read(1, 2)
    assert log.history.gone_count == 1
    with pytest.raises(Violation, match="nothing newer of its key"):
        log.read(2)


@pytest.mark.parametrize("ending", ["aborted", "open"])
def test_what_nobody_committed_replaces_nothing(ending: str) -> None:
    log = Log()
    log.write("a")
    log.write("a", ending=ending)
    with pytest.raises(Violation, match="nothing newer of its key"):
        log.read()


def test_a_transaction_whose_record_is_gone_without_a_newer_one_was_aborted() -> None:
    log = Log()
    log.write("a", ending="unknown")
    log.read()
    with pytest.raises(Violation, match="left out before"):
        log.history.committed(log.history.transactions[0])


def test_a_tombstone_stays_for_its_time() -> None:
    log = Log()
    log.write("a", is_tombstone=True)
    log.now_s = 4.9
    with pytest.raises(Violation, match="nothing newer of its key"):
        log.read()
    log.now_s = 5.0
    log.read()
    assert log.history.tombstones_gone_count == 1


def test_tombstones_that_a_reader_must_not_miss() -> None:
    log = Log()
    log.write("a")
    log.write("a", is_tombstone=True)
    log.write("b", is_tombstone=True)
    log.write("b")
    read = CommittedRead(PLACE, 0, 4, log.only(0, 3), [])
    assert log.history.tombstones_missed(read) == log.only(1)


def test_a_log_begins_where_somebody_wanted_it_to() -> None:
    log = Log(CompactionTerms(5.0, 5.0, None, is_deleting=True))
    for _ in range(4):
        log.write("a")
    assert not log.history.may_be_out_of_range(PLACE, 0)
    log.history.want_deleted(PLACE, 2)
    assert log.history.may_be_out_of_range(PLACE, 1) and not log.history.may_be_out_of_range(PLACE, 2)
    log.history.begins_at(PLACE, 2, 0)
    with pytest.raises(Violation, match="began at 2 before"):
        log.history.begins_at(PLACE, 1, 2)
    with pytest.raises(Violation, match="nobody deleted"):
        log.history.begins_at(PLACE, 3, 2)


def test_what_goes_by_its_age_is_old_enough() -> None:
    log = Log(CompactionTerms(50.0, 50.0, 10.0, is_deleting=True))
    log.write("a")
    log.now_s = 5.0
    log.write("b")
    log.now_s = 11.0
    log.history.begins_at(PLACE, 1, 0)
    with pytest.raises(Violation, match="before its time"):
        log.history.begins_at(PLACE, 2, 1)


def test_in_the_end_the_newest_of_each_key_is_there() -> None:
    log = Log()
    for key in "abab":
        log.write(key)
    log.check(0, 1, 2, 3)
    log.check(2, 3, compacted_to=4)
    with pytest.raises(Violation, match="the newest of its key"):
        log.check(1, 2, compacted_to=4)
    with pytest.raises(Violation, match="is compacted up to"):
        log.check(1, 2, 3, compacted_to=4)
    log.check(1, 2, 3, compacted_to=3)


def test_in_the_end_a_tombstone_is_gone_with_all_before_it() -> None:
    log = Log()
    log.write("a")
    log.write("a", is_tombstone=True)
    log.now_s = 10.0
    log.check()
    with pytest.raises(Violation, match="has an older record"):
        log.check(0)


def test_in_the_end_nothing_of_an_aborted_transaction_is_left() -> None:
    log = Log()
    log.write("b")
    log.write("a", ending="aborted")
    log.write("a")
    with pytest.raises(Violation, match="is aborted"):
        log.check(0, 1, 2)
    with pytest.raises(Violation, match="are left"):
        log.history.check_compacted({PLACE: log.only(0, 1, 2)}, {PLACE: log.only(0, 2)}, {PLACE: (2, 0)})
    log.history.check_compacted({PLACE: log.only(0, 1, 2)}, {PLACE: log.only(0, 2)}, {PLACE: (1, 0)})
