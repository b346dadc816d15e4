"""The rules for what may be missing find what they are there for: each broken once by hand."""

from __future__ import annotations

import pytest

from tests.simulation.aged_log import Aged, AgedLog, AgedTerms
from tests.simulation.history import Violation

pytestmark = pytest.mark.simulation

COMPACTED = AgedTerms(is_compacted=True, delete_retention_s=5.0)


def log_of(terms: AgedTerms, keys: str, tombstones: str = "") -> AgedLog:
    """A batch of 100 bytes for each key, sent at 0 s, 1 s …"""
    log = AgedLog(terms, 1)
    for offset, key in enumerate(keys):
        log.send([Aged(key.encode(), b"%d" % offset, float(offset), str(offset) in tombstones)], 100)
        log.acknowledge(offset)
    return log


def read(log: AgedLog, *offsets: int, now_s: float = 4.0) -> None:
    log.read(0, [(offset, b"%d" % offset) for offset in offsets], log.sent_end, now_s)


def test_what_has_a_newer_record_of_its_key_may_be_cleaned_away() -> None:
    log = log_of(COMPACTED, "aba")
    read(log, 0, 1, 2)
    read(log, 1, 2)
    assert log.gone == {0}
    with pytest.raises(Violation, match="not to be cleaned"):
        read(log, 2)


def test_without_compaction_nothing_goes_from_the_middle() -> None:
    log = log_of(AgedTerms(retention_s=0.0), "aa")
    with pytest.raises(Violation, match="not to be cleaned"):
        read(log, 1, now_s=100.0)


def test_a_tombstone_stays_for_its_time() -> None:
    log = log_of(COMPACTED, "ab", tombstones="1")
    with pytest.raises(Violation, match="not to be cleaned"):
        read(log, 0, now_s=5.9)
    read(log, 0, now_s=6.0)


def test_what_is_read_is_what_was_sent() -> None:
    log = log_of(COMPACTED, "ab")
    with pytest.raises(Violation, match="is at 0"):
        log.read(0, [(0, b"1"), (1, b"1")], 2, 4.0)
    with pytest.raises(Violation, match="only 2 were sent"):
        log.read(0, [(0, b"0"), (1, b"1")], 3, 4.0)
    with pytest.raises(Violation, match="not ascending"):
        log.read(0, [(1, b"1"), (0, b"0")], 2, 4.0)


def test_what_members_are_given_is_what_was_sent() -> None:
    log = log_of(AgedTerms(), "ab", tombstones="1")
    log.given(0, b"0")
    log.given(1, None)
    for offset, name in ((0, b"1"), (0, None), (1, b"1"), (2, b"2")):
        with pytest.raises(Violation, match="was given as"):
            log.given(offset, name)


def test_a_batch_goes_to_the_end_of_the_log() -> None:
    log = log_of(COMPACTED, "a")
    log.send([Aged(b"a", b"1", 1.0, False)], 100)
    with pytest.raises(Violation, match="1 was the log's end, and the next batch went to 2"):
        log.acknowledge(2)


def test_a_log_begins_where_somebody_wanted_it_to() -> None:
    log = log_of(AgedTerms(), "aaaa")
    log.wanted = 2
    log.begins_beyond(1, 100.0)
    log.begins_at(2, 100.0)
    with pytest.raises(Violation, match="began at 2 before"):
        log.begins_at(1, 100.0, log.start)
    with pytest.raises(Violation, match="wanted below 2 only"):
        log.begins_at(3, 100.0)


def test_what_goes_by_its_age_is_old_enough() -> None:
    log = log_of(AgedTerms(retention_s=10.0), "ab")
    log.begins_at(1, 10.0)
    with pytest.raises(Violation, match="retention would not take it"):
        log.begins_at(2, 10.9)
    log.begins_at(2, 11.0)


def test_what_was_cleaned_away_need_not_be_old() -> None:
    log = log_of(AgedTerms(is_compacted=True, retention_s=10.0), "aa")
    log.begins_at(1, 2.0)
    with pytest.raises(Violation, match="retention would not take it"):
        log.begins_at(2, 2.0)


def test_what_goes_by_the_size_leaves_so_much() -> None:
    log = log_of(AgedTerms(retention_bytes=200), "aaaa")
    log.begins_at(2, 4.0)
    with pytest.raises(Violation, match="retention would not take it"):
        log.begins_at(3, 4.0)


def test_nothing_is_deleted_that_was_not_sent() -> None:
    log = log_of(AgedTerms(retention_s=0.0), "a")
    with pytest.raises(Violation, match="only 1 were sent"):
        log.begins_at(2, 100.0)
