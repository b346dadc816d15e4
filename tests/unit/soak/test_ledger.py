"""Everybody is shown the same batches, in one row; epochs in the log are those that somebody was given."""

from __future__ import annotations

import pytest

from tests.soak.cluster.batches import Batch
from tests.soak.cluster.ledger import Ledger
from tests.soak.cluster.owners import Owners
from tests.soak.history import Origin, Sightings

pytestmark = pytest.mark.campaign("unit")

PARTITION = 2


def batch(base_offset: int, count: int = 1, leader_epoch: int = 0, checksum: int = 0) -> Batch:
    return Batch(base_offset, base_offset + count, leader_epoch, checksum, count, b"")


def ledger_of(*batches: Batch) -> Ledger:
    ledger = Ledger(PARTITION)
    for one in batches:
        assert ledger.add(one) == (True, None)
    return ledger


def test_what_was_seen_before_is_no_news() -> None:
    ledger = ledger_of(batch(0, 3), batch(3), batch(4, 2))
    assert [ledger.add(each) for each in (batch(0, 3), batch(3), batch(4, 2))] == [(False, None)] * 3
    assert ledger.end_offset == 6


@pytest.mark.parametrize(
    "other",
    [
        batch(0, 2),
        batch(1, 2),
        batch(3, leader_epoch=1),
        batch(3, checksum=1),
        batch(5),
        batch(7),
    ],
)
def test_another_batch_and_a_gap_are_found(other: Batch) -> None:
    is_new, problem = ledger_of(batch(0, 3), batch(3), batch(4, 2)).add(other)
    assert not is_new
    assert problem is not None and problem.startswith(f"partition {PARTITION}")


def test_an_epoch_behind_a_later_one_is_found() -> None:
    is_new, problem = ledger_of(batch(0, leader_epoch=4)).add(batch(1, leader_epoch=3))
    assert is_new
    assert problem is not None and "behind a later epoch's" in problem


def test_epochs_begin_where_their_first_batch_is() -> None:
    ledger = ledger_of(batch(0), batch(1), batch(2, 5, leader_epoch=2), batch(7, leader_epoch=5))
    assert list(ledger.epoch_starts()) == [(0, 0), (2, 2), (5, 7)]


def test_another_record_at_an_offset_is_found_whoever_comes_first() -> None:
    sightings = Sightings(PARTITION)
    assert [sightings.add(offset, Origin(1, offset)) for offset in (5, 0, 5, 3)] == [None] * 4
    assert sightings.add(3, Origin(0, 3)) is not None


def owners_of(*changes: tuple[int, int]) -> Owners:
    """(epoch, leader)"""
    owners = Owners("topic")
    for leader_epoch, leader in changes:
        owners.add(PARTITION, leader_epoch, leader)
    return owners


def test_a_log_that_agrees_with_its_owners_has_no_problem() -> None:
    ledger = ledger_of(batch(0), batch(1, leader_epoch=2))
    owners = owners_of((0, 1), (1, -1), (2, 3), (2, 3), (3, 1))
    assert owners.check(PARTITION, ledger, {0: 1, 2: 3}) == []
    assert (owners.problems, owners.change_count) == ([], 3)


@pytest.mark.parametrize(
    ("changes", "holders", "word"),
    [
        ([(0, 1)], {0: 1, 2: 3}, "was given to nobody"),
        ([(0, 1), (2, -1)], {0: 1, 2: 3}, "was given to nobody"),
        ([(0, 1), (2, 3)], {0: 1}, "no directory"),
        ([(0, 1), (2, 3)], {0: 1, 2: 1}, "given to node 3 and is node 1's"),
    ],
)
def test_a_log_that_does_not_agree_is_found(changes: list[tuple[int, int]], holders: dict[int, int], word: str) -> None:
    ledger = ledger_of(batch(0), batch(1, leader_epoch=2))
    (problem,) = owners_of(*changes).check(PARTITION, ledger, holders)
    assert "epoch 2" in problem and word in problem


def test_two_owners_of_one_epoch_are_told_once() -> None:
    owners = owners_of((4, 1), (4, 2), (4, 2), (4, 1))
    assert owners.problems == [f"partition {PARTITION} was given to both 1 and 2 under epoch 4"]


def test_pages_of_the_rest_api_are_understood() -> None:
    owners = Owners("topic")
    owners.add_topic_page({"partitions": [{"partition": 0, "leader": 2, "leader_epoch": 3}]})
    changes = [
        {"topic": "topic", "partition": 0, "leader": 1, "leader_epoch": 1},
        {"topic": "other", "partition": 0, "leader": 9, "leader_epoch": 3},
    ]
    owners.add_history_page({"changes": changes})
    assert [owners.of(0, epoch) for epoch in (1, 2, 3)] == [1, -1, 2]
