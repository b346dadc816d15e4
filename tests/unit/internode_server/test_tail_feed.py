"""The tail feed and the remote state it fills: whatever moves, a true, unbroken, bounded copy of the log's end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.broker.tail_cache import TailCache
from bmq.internode_server import tail_feed
from bmq.internode_server.tail_feed import SHARE_BYTES_MIN, SentPart, TailFeed
from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.partition_log import TopicPartition
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.internal_messages import EpochStart, ForgottenTail, TailInterest, TailPart
from bmq.protocol.record_batch import CorruptRecords
from bmq.routing.remote_state import RemoteState

pytestmark = pytest.mark.unit

TOPIC_ID = UUID(int=3)
EPOCH = 5


@dataclass
class Log:
    """A log's end in memory, from `tail_start` on."""

    leader_epoch: int = EPOCH
    log_start_offset: int = 0
    high_watermark: int = 0
    log_end_offset: int = 0
    compacted_offset: int = -1
    epoch_starts: Sequence[tuple[int, int]] = ((2, 0), (EPOCH, 0))
    aborted: AbortedTransactions = field(default_factory=AbortedTransactions)
    batches: list[tuple[int, int, memoryview]] = field(default_factory=list)
    tail_start: int = 0

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark

    def write(self, count: int, value_bytes: int = 10) -> None:
        base = self.log_end_offset
        records = [Record(None, b"%d" % base + b"v" * value_bytes, timestamp_ms=1) for _ in range(count)]
        data = encode_batch(records, base_offset=base, leader_epoch=self.leader_epoch)
        self.log_end_offset = base + count
        self.batches.append((base, self.log_end_offset, memoryview(data)))

    def sync(self) -> None:
        self.high_watermark = self.log_end_offset

    def produce(self, count: int = 1, value_bytes: int = 10) -> None:
        self.write(count, value_bytes)
        self.sync()

    def evict(self, below: int) -> None:
        self.tail_start = max((end for _, end, _ in self.batches if end <= below), default=self.tail_start)

    def bytes_between(self, start: int, end: int) -> bytes:
        return b"".join(data for base, _, data in self.batches if start <= base < end)

    def tail_read(self, offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None:
        assert offset < bound_offset
        if offset < self.tail_start:
            return None
        chosen: list[memoryview] = []
        for _, end, data in self.batches:
            if end <= offset:
                continue
            if end > bound_offset or (chosen and sum(map(len, chosen)) + len(data) > length_bytes_max):
                break
            chosen.append(data)
        return chosen


class Feed:
    """A feed, the logs behind it, and a remote state of each."""

    def __init__(self, count: int = 1, followed_max: int = 100, tail_bytes_max: int = 10**9) -> None:
        self.feed = TailFeed(followed_max)
        self.logs: dict[TopicPartition, Log] = {key(number): Log() for number in range(count)}
        self.cache = TailCache(tail_bytes_max)
        self.remote_states = {name: RemoteState(self.cache.partition()) for name in self.logs}

    def follow(self, number: int, offset: int = 0, leader_epoch: int = EPOCH) -> None:
        self.feed.change([interest(number, offset, leader_epoch)], ())

    def collect(self, bytes_max: int = 10**6) -> list[SentPart]:
        return self.feed.collect(bytes_max, self.logs.get)

    def told(self, bytes_max: int = 10**6) -> dict[int, TailPart]:
        """By partition, with the records in one piece; the remote states have taken it."""
        parts = {}
        for part, records in self.collect(bytes_max):
            part.records = memoryview(bytearray(b"".join(records)))
            assert part.partition not in parts
            parts[part.partition] = part
            if not part.error_code:
                self.remote_states[key(part.partition)].take(part)
        return parts

    def moved(self, number: int = 0) -> None:
        self.feed.moved(key(number))


def key(number: int) -> TopicPartition:
    return TopicPartition(TOPIC_ID, number)


def interest(number: int, offset: int = 0, leader_epoch: int = EPOCH) -> TailInterest:
    return TailInterest(topic_id=TOPIC_ID, partition=number, leader_epoch=leader_epoch, offset=offset)


def test_the_first_answer_has_the_epochs_and_the_later_ones_what_is_new() -> None:
    one = Feed()
    log = one.logs[key(0)]
    log.produce(2)
    one.follow(0)
    (part,) = one.told().values()
    assert (part.base_offset, part.high_watermark, part.log_end_offset) == (0, 2, 2)
    assert part.epochs == (EpochStart(leader_epoch=2, start_offset=0), EpochStart(leader_epoch=5, start_offset=0))
    assert bytes(part.records) == log.bytes_between(0, 2)
    assert one.collect() == []
    log.produce(3)
    log.write(1)  # not durable: nobody is sent it
    one.moved()
    (part,) = one.told().values()
    assert (part.base_offset, part.high_watermark, part.log_end_offset, part.epochs) == (2, 5, 6, ())
    assert bytes(part.records) == log.bytes_between(2, 5)
    one.moved()
    assert one.collect() == []
    log.log_start_offset = 4
    one.moved()
    (part,) = one.told().values()
    assert part.log_start_offset == 4 and not part.records
    assert one.remote_states[key(0)].log_start_offset == 4


def test_a_compaction_is_told_though_no_offset_moves() -> None:
    """What the follower has of the log below is gone from the owner's files."""
    one = Feed()
    log, state = one.logs[key(0)], one.remote_states[key(0)]
    log.produce(2)
    log.produce(2)
    one.follow(0)
    assert one.told()[0].compacted_offset == -1
    assert state.tail_read(0, 10**6, 4) and state.aborted_transactions(0, 4) == []
    log.compacted_offset = 2
    log.evict(2)
    one.moved()
    (part,) = one.told().values()
    assert part.compacted_offset == state.compacted_offset == 2 and not part.records
    assert not state.tail_read(0, 10**6, 4) and state.tail_read(2, 10**6, 4)
    assert state.aborted_transactions(0, 4) is None and state.aborted_transactions(2, 4) == []
    one.moved()
    assert one.collect() == []


def test_batches_that_come_behind_the_news_of_a_compaction_are_not_kept() -> None:
    """A position's answer may overtake them: it comes over another connection."""
    one = Feed()
    log, state = one.logs[key(0)], one.remote_states[key(0)]
    log.produce(2)
    log.produce(2)
    one.follow(0)
    state.learn_compacted(2)
    one.told()
    assert not state.tail_read(0, 10**6, 4) and state.tail_read(2, 10**6, 4)
    state.learn_compacted(-1)  # from an older answer, or of a node that does not tell it
    assert state.compacted_offset == 2


def test_following_may_begin_at_the_end() -> None:
    one = Feed()
    log = one.logs[key(0)]
    log.produce(5)
    one.follow(0, -1)
    (part,) = one.told().values()
    assert (part.base_offset, part.high_watermark, len(part.records)) == (5, 5, 0)
    log.produce(1)
    one.moved()
    assert one.told()[0].base_offset == 5


def test_what_is_not_in_memory_is_skipped() -> None:
    one = Feed()
    log = one.logs[key(0)]
    log.produce(5)
    log.produce(5)
    log.evict(5)
    one.follow(0, 3)
    (part,) = one.told().values()
    assert (part.base_offset, part.high_watermark, len(part.records)) == (10, 10, 0)
    log.produce(1)
    one.moved()
    assert one.told()[0].base_offset == 10


def test_a_batch_that_holds_the_offset_asked_for_is_sent_whole() -> None:
    one = Feed()
    one.logs[key(0)].produce(5)
    one.follow(0, 3)
    assert one.told()[0].base_offset == 0


@pytest.mark.parametrize("leader_epoch", [EPOCH - 1, EPOCH + 1])
def test_another_epoch_ends_the_following(leader_epoch: int) -> None:
    one = Feed()
    one.follow(0, 0, leader_epoch)
    (part,) = one.told().values()
    is_old = leader_epoch < EPOCH
    assert part.error_code == (ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH)
    one.moved()
    assert one.collect() == [] and len(one.feed) == 0


def test_a_partition_that_goes_away_ends_the_following() -> None:
    one = Feed()
    one.follow(0)
    one.told()
    del one.logs[key(0)]
    one.moved()
    assert one.told()[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(one.feed) == 0


def test_what_is_forgotten_is_not_told_and_what_is_added_again_begins_anew() -> None:
    one = Feed()
    one.follow(0)
    one.told()
    one.logs[key(0)].produce(1)
    one.moved()
    one.feed.change((), [ForgottenTail(topic_id=TOPIC_ID, partition=0)])
    assert one.collect() == [] and not one.feed.follows(key(0))
    one.feed.change([interest(0)], [ForgottenTail(topic_id=TOPIC_ID, partition=0)])
    assert one.told()[0].epochs


def test_followed_partitions_are_bounded() -> None:
    one = Feed(5, followed_max=3)
    one.feed.change([interest(number) for number in range(5)], ())
    one.feed.change([interest(0)], ())  # that one is followed already
    parts = one.told()
    assert {number for number, part in parts.items() if part.error_code} == {3, 4}
    assert parts[4].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert len(one.feed) == 3


def test_one_answer_has_no_more_parts_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_feed, "PARTS_MAX", 4)
    one = Feed(10)
    one.feed.change([interest(number) for number in range(10)], ())
    assert [list(one.told()) for _ in range(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]


def test_partitions_take_turns() -> None:
    """A busy partition does not keep the others from being told, nor they it."""
    one = Feed(4)
    for log in one.logs.values():
        for _ in range(6):
            log.produce(1, value_bytes=SHARE_BYTES_MIN)
    one.feed.change([interest(number) for number in range(4)], ())
    turns = [sorted(one.told(bytes_max=2 * SHARE_BYTES_MIN)) for _ in range(12)]
    # A batch is a little longer than a share, so an answer has two of them.
    assert turns == [[0, 1], [2, 3]] * 6
    assert [remote_state.high_watermark for remote_state in one.remote_states.values()] == [6] * 4
    assert one.collect() == []


def test_a_high_watermark_is_told_with_the_batches_below_it() -> None:
    """A reader that saw it first would fetch them from the store instead of waiting a moment."""
    one = Feed()
    log = one.logs[key(0)]
    for _ in range(3):
        log.produce(2, value_bytes=SHARE_BYTES_MIN)
    one.follow(0)
    for end in (2, 4, 6):
        (part,) = one.told(bytes_max=1).values()
        assert (part.high_watermark, part.last_stable_offset, part.log_end_offset) == (end, end, 6)


def test_a_batch_longer_than_the_limit_is_sent_all_the_same() -> None:
    one = Feed()
    one.logs[key(0)].produce(1, value_bytes=1000)
    one.follow(0)
    assert len(one.told(bytes_max=1)[0].records) > 1000


def test_the_remote_state_refuses_what_is_no_run_of_batches() -> None:
    remote_state = RemoteState(TailCache(1000).partition())
    with pytest.raises(CorruptRecords):
        remote_state.take(TailPart(records=b"x" * 100, high_watermark=1))
    assert remote_state.high_watermark == 0


def test_a_batch_that_comes_again_changes_nothing() -> None:
    log, cache = Log(), TailCache(10**6)
    remote_state = RemoteState(cache.partition())
    for _ in range(3):
        log.produce(2)
    for start, end in ((0, 4), (0, 2), (2, 6), (4, 6)):
        records = memoryview(bytearray(log.bytes_between(start, end)))
        remote_state.take(TailPart(records=records, base_offset=start, high_watermark=end, last_stable_offset=end))
    assert remote_state.high_watermark == 6
    assert b"".join(remote_state.tail_read(0, 10**6, 6) or ()) == log.bytes_between(0, 6)


def test_the_remote_state_does_not_go_back() -> None:
    remote_state = RemoteState(TailCache(1000).partition())
    assert remote_state.learn(log_start_offset=2, high_watermark=8, last_stable_offset=7, log_end_offset=9)
    assert not remote_state.learn(log_start_offset=1, high_watermark=5, last_stable_offset=5, log_end_offset=6)
    offsets = (
        remote_state.log_start_offset,
        remote_state.high_watermark,
        remote_state.last_stable_offset,
        remote_state.log_end_offset,
    )
    assert offsets == (2, 8, 7, 9)
    remote_state.learn_epochs([EpochStart(leader_epoch=1, start_offset=0), EpochStart(leader_epoch=3, start_offset=5)])
    assert [remote_state.epoch_end_offset(epoch) for epoch in (0, 1, 2, 3, 4)] == [
        (0, 0),
        (1, 5),
        (1, 5),
        (3, 8),
        (-1, -1),
    ]


@given(
    seed=st.integers(0, 2**32),
    steps=st.integers(5, 120),
    bytes_max=st.integers(1, 3000),
    tail_bytes_max=st.integers(2_000, 20_000),
)
def test_whatever_happens_the_remote_states_are_true(
    seed: int, steps: int, bytes_max: int, tail_bytes_max: int
) -> None:
    """Random writes, evictions on both sides, additions and forgetting. A reader of the copy finds the log's own bytes or
    nothing; and once all is told, the copy has the log's offsets."""
    random = Random(seed)
    one = Feed(3, tail_bytes_max=tail_bytes_max)
    followed: set[int] = set()
    for _ in range(steps):
        number = random.randrange(3)
        log = one.logs[key(number)]
        step = random.random()
        if step < 0.3:
            for _ in range(random.randint(1, 4)):
                log.write(random.randint(1, 4), random.randint(1, 400))
        elif step < 0.5:
            log.high_watermark = max(log.high_watermark, random.choice([end for _, end, _ in log.batches] or [0]))
            one.moved(number)
        elif step < 0.6:
            log.evict(random.randint(0, log.high_watermark))
        elif step < 0.65:
            followed.discard(number)
            one.feed.change((), [ForgottenTail(topic_id=TOPIC_ID, partition=number)])
        elif step < 0.75:
            followed.add(number)
            one.follow(number, one.remote_states[key(number)].high_watermark)
        else:
            parts = one.told(bytes_max)
            assert all(not part.error_code for part in parts.values())
            sizes = [len(part.records) for part in parts.values()]
            assert sum(sizes[:-1]) < bytes_max or len(sizes) <= 1
        for name, remote_state in one.remote_states.items():
            source = one.logs[name]
            assert remote_state.high_watermark <= source.high_watermark
            assert one.cache.bytes_used <= one.cache.bytes_max
            views = remote_state.tail_read(random.randint(0, 50), 10**6, remote_state.high_watermark)
            assert b"".join(views or ()) in source.bytes_between(0, source.high_watermark)
    for log in one.logs.values():
        log.sync()
    for number in range(3):
        one.moved(number)
    for _ in range(1_000):
        if not one.told(bytes_max):
            break
    for number in followed:
        remote_state, log = one.remote_states[key(number)], one.logs[key(number)]
        assert (remote_state.high_watermark, remote_state.log_end_offset) == (log.high_watermark, log.log_end_offset)


def test_one_partition_that_cannot_be_told_leaves_the_others_alone() -> None:
    class Broken(Log):
        def tail_read(self, offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None:
            raise MemoryError("no memory for one turn")

    logs = {TopicPartition(TOPIC_ID, number): Broken() if number == 1 else Log() for number in range(3)}
    feed = TailFeed()
    interests = [TailInterest(topic_id=key.topic_id, partition=key.partition, leader_epoch=EPOCH) for key in logs]
    for log in logs.values():
        log.produce()
    for interest in interests:
        interest.offset = 0
    feed.change(interests, ())
    told = {one.part.partition: one for one in feed.collect(1 << 20, logs.get)}
    assert told[1].part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and not told[1].records
    assert all(told[number].part.high_watermark == 1 and told[number].records for number in (0, 2))
    assert not feed.follows(TopicPartition(TOPIC_ID, 1))
