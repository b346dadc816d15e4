"""Why members of a group get nothing: what is said first, and that each cause is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bmq.admin.group_reasons import (
    GroupFacts,
    LogFacts,
    OpenTransaction,
    consumer_reasons,
    share_reasons,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.share_state_messages import ExplainedPartition, LockHolder

pytestmark = pytest.mark.unit

NOON_MS = 12 * 3_600_000
GROUP = GroupFacts("Stable", 2, ["a"])
LOG = LogFacts(None, 0, 100, 100)
HELD = LogFacts(None, 0, 100, 60, OpenTransaction(7, 60, "pay", NOON_MS - 90_000))
STATE = ExplainedPartition(
    state_epoch=2, start_offset=0, first_available=100, window_end=100, locks_max=200, active_member="a", active_epoch=3
)


def state(**fields: object) -> ExplainedPartition:
    return replace(STATE, **fields)  # type: ignore[arg-type]


def said(
    group: GroupFacts, log: LogFacts, explained: ExplainedPartition, *, committed: bool = False, single: bool = False
) -> list[str]:
    reasons = share_reasons(group, log, explained, is_committed=committed, is_single_active=single, now_ms=NOON_MS)
    return [f"{reason.code}: {reason.text}" for reason in reasons]


HOLDERS = [LockHolder(member_id=name, count=10, first=0, last=9, left_ms=30_000) for name in "abcde"]


@pytest.mark.parametrize(
    ("log", "explained", "expected"),
    [
        (LOG, STATE, ["nothing_new: all is done up to the end, 100"]),
        (LOG, state(first_available=40), ["deliverable: records from 40 on can be fetched, the end is 100"]),
        (
            replace(LOG, start_offset=50),
            state(first_available=40),
            ["deliverable: records from 50 on can be fetched, the end is 100"],
        ),
        (
            LOG,
            state(locked_count=10, holders=HOLDERS[:1]),
            ["all_locked: all 10 records that are left are locked: 10 by member a until 12:00:30"],
        ),
        (
            LOG,
            state(first_available=50, locked_count=200, holders=HOLDERS),
            [
                "window_full: 200 of at most 200 records are locked: 10 by member a until 12:00:30, "
                "10 by member b until 12:00:30, 10 by member c until 12:00:30, and 2 more members"
            ],
        ),
        (
            replace(LOG, high_watermark=200_000, last_stable_offset=200_000),
            state(first_available=100_000, locked_count=1, holders=HOLDERS[:1]),
            [
                "window_full: record 0 is not done, and 100000 records from it on were given: "
                "10 by member a until 12:00:30"
            ],
        ),
        (
            LOG,
            state(
                first_available=3, locked_count=10, holders=HOLDERS[:1], key_members=2, keys_waiting=7, keys_read_to=90
            ),
            [
                "keys_waiting: 7 records wait for earlier ones of their keys, or for a fetch of the member that their keys "
                "are meant for (2 fetch); locked are 10 by member a until 12:00:30",
                "deliverable: records from 90 on can be fetched, the end is 100",
            ],
        ),
        (
            replace(LOG, high_watermark=200_000, last_stable_offset=200_000),
            state(first_available=3, keys_waiting=99_990, key_members=1, keys_read_to=100_000),
            [
                "window_full: record 0 is not done, and 100000 records from it on were read",
                "keys_waiting: 99990 records wait for earlier ones of their keys, or for a fetch of the member that their "
                "keys are meant for (1 fetch)",
            ],
        ),
        (
            LOG,
            state(delayed_count=3, delayed_first_ms=5_000, delayed_last_ms=60_000),
            ["back_off: 3 records are in back-off, the first until 12:00:05, the last until 12:01:00"],
        ),
        (
            LOG,
            state(first_available=50, delayed_count=1, delayed_first_ms=5_000, delayed_last_ms=5_000),
            [
                "deliverable: records from 50 on can be fetched, the end is 100",
                "back_off: 1 record is in back-off, until 12:00:05",
            ],
        ),
        (
            LOG,
            state(first_available=50, locked_count=150, delayed_count=50, delayed_last_ms=5_000, holders=HOLDERS[:1]),
            [
                "window_full: 200 of at most 200 records are locked or in back-off: 10 by member a until 12:00:30",
                "back_off: 50 records are in back-off, the first until 12:00:00, the last until 12:00:05",
            ],
        ),
        (
            LOG,
            state(locked_count=10, archiving_count=4, archiving_first=7, holders=HOLDERS[:1]),
            [
                "all_locked: 10 records are locked: 10 by member a until 12:00:30",
                "dead_letters: 4 records are given up, from 7 on, whose dead letters are being written",
            ],
        ),
        (
            LOG,
            state(archiving_count=1, archiving_first=7, archiving_why="topic dlq.t does not exist"),
            [
                "dead_letters: 1 record is given up, from 7 on, whose dead letters could not be written yet: "
                "topic dlq.t does not exist"
            ],
        ),
        (LOG, state(start_offset=-1, first_available=-1), ["not_started: no member has fetched from it yet"]),
        (
            LOG,
            ExplainedPartition(),
            ["not_initialized: its state is not initialized; the next heartbeat of a member begins that"],
        ),
        (
            LogFacts("no node owns the partition now"),
            STATE,
            ["partition_offline: no node owns the partition now"],
        ),
        (
            LOG,
            ExplainedPartition(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message="shard 3: it is damaged"),
            ["state_unavailable: shard 3: it is damaged"],
        ),
    ],
)
def test_what_is_said_of_a_share_partition(log: LogFacts, explained: ExplainedPartition, expected: list[str]) -> None:
    assert said(GROUP, log, explained) == expected


def test_an_open_transaction_stops_groups_that_read_committed_records() -> None:
    at_transaction = state(first_available=60)
    assert said(GROUP, HELD, at_transaction, committed=True) == [
        "transaction_open: producer 7 has a transaction open from 60 on, transactional id pay, for 90 s; "
        "records of committed transactions alone are given"
    ]
    assert said(GROUP, HELD, at_transaction)[0].startswith("deliverable")
    assert said(GROUP, HELD, state(first_available=50), committed=True)[0].startswith("deliverable")
    unknown = replace(HELD, transaction=OpenTransaction(7, 60))
    assert said(GROUP, unknown, at_transaction, committed=True)[0].startswith(
        "transaction_open: producer 7 has a transaction open from 60 on; records"
    )
    locked = state(first_available=60, locked_count=10, holders=HOLDERS[:1])
    codes = [one.partition(":")[0] for one in said(GROUP, HELD, locked, committed=True)]
    assert codes == ["transaction_open", "all_locked"]


def test_members_come_before_records() -> None:
    nobody = said(GroupFacts("Empty", 0, ()), LOG, STATE)
    assert nobody == ["no_members: the group has no members", "nothing_new: all is done up to the end, 100"]
    unassigned = said(replace(GROUP, assigned=()), LOG, STATE)
    assert unassigned[0] == "not_assigned: no member has it: none is subscribed to the topic, or heard of it yet"


def test_another_active_member_is_named() -> None:
    assert said(GROUP, LOG, STATE, single=True)[0].startswith("nothing_new")
    assert said(replace(GROUP, assigned=["b"]), LOG, STATE, single=True)[0] == (
        "other_member_active: its shard gives records to member a until the next heartbeat"
    )
    unknown = state(active_member="", active_epoch=-1)
    assert said(GROUP, LOG, unknown, single=True)[0].endswith("gives records to no member until the next heartbeat")


@pytest.mark.parametrize(
    ("group", "log", "committed", "expected"),
    [
        (GROUP, LOG, 100, ["nothing_new: all is consumed up to 100"]),
        (GROUP, LOG, 40, ["behind: 60 records from 40 on can be fetched"]),
        (GROUP, LOG, -1, ["no_offset: no offset is committed; members begin by their auto.offset.reset"]),
        (
            GROUP,
            HELD,
            60,
            [
                "transaction_open: producer 7 has a transaction open from 60 on, transactional id pay, for 90 s; "
                "members that read committed records wait"
            ],
        ),
        (GROUP, LogFacts("gone"), 5, ["partition_offline: gone"]),
        (
            replace(GROUP, state="PreparingRebalance", assigned=()),
            LOG,
            100,
            [
                "rebalancing: the group is PreparingRebalance: members are changing partitions",
                "not_assigned: no member has it: none is subscribed to the topic, or heard of it yet",
                "nothing_new: all is consumed up to 100",
            ],
        ),
        (
            GroupFacts("Empty", 0),
            LOG,
            1,
            ["no_members: the group has no members", "behind: 99 records from 1 on can be fetched"],
        ),
    ],
)
def test_what_is_said_of_a_consumers_partition(
    group: GroupFacts, log: LogFacts, committed: int, expected: list[str]
) -> None:
    assert [f"{one.code}: {one.text}" for one in consumer_reasons(group, log, committed, now_ms=NOON_MS)] == expected
