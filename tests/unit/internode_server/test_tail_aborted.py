"""Aborted transactions on their way to other nodes' readers: what a remote state tells of them is never incomplete."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.broker.tail_cache import TailCache
from bmq.internode_server import tail_feed
from bmq.internode_server.tail_feed import TailFeed, aborted_between
from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.partition_log import AbortedTransaction
from bmq.log.producer_state import ProducerStates
from bmq.protocol.control_batch import ControlType, EndTransactionMarker
from bmq.protocol.record_batch import BatchHeader
from bmq.routing import remote_state
from bmq.routing.remote_state import RemoteState
from tests.unit.internode_server.test_tail_feed import Log, interest, key

pytestmark = pytest.mark.unit


class TransactionalLog(Log):
    """With producers whose transactions end now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.producers = ProducerStates()

    @property
    def aborted(self) -> AbortedTransactions:
        return self.producers.aborted

    @aborted.setter
    def aborted(self, table: AbortedTransactions) -> None:
        pass

    @property
    def last_stable_offset(self) -> int:
        return max(self.producers.last_stable_offset(self.high_watermark), self.log_start_offset)

    def _header(self, producer: int, *, is_control: bool) -> BatchHeader:
        return BatchHeader(0, 100, 0, 2, 0, 48 if is_control else 16, 0, 1, 1, producer, 0, -1, 1)

    def send(self, producer: int) -> None:
        self.producers.place(self._header(producer, is_control=False), self.log_end_offset, NOW_MS)
        self.write(1)

    def end(self, producer: int, kind: ControlType) -> None:
        marker = EndTransactionMarker(kind, 0)
        self.producers.place_marker(self._header(producer, is_control=True), self.log_end_offset, marker, NOW_MS)
        self.write(1)

    def sync_to(self, offset: int) -> None:
        self.high_watermark = offset
        self.producers.synced(offset)

    def truth(self, start: int, end: int) -> list[AbortedTransaction]:
        return self.producers.aborted.overlapping(start, end)


def check(log: TransactionalLog, state: RemoteState) -> None:
    assert state.last_stable_offset <= min(log.last_stable_offset, state.high_watermark)
    stable = state.last_stable_offset
    for start in range(log.log_start_offset, stable):
        for end in (start + 1, (start + stable + 1) // 2, stable):
            if start < end:
                told: Sequence[AbortedTransaction] | None = state.aborted_transactions(start, end)
                assert told is None or list(told) == log.truth(start, end)
                if start >= state.aborted_from_offset:
                    assert told is not None


NOW_MS = 1_700_000_000_000
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 3)),
        st.tuples(st.just("abort"), st.integers(0, 3)),
        st.tuples(st.just("commit"), st.integers(0, 3)),
        st.tuples(st.just("sync"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["tell", "follow", "ask", "late", "evict", "delete"]), st.integers(0, 400)),
    ),
    max_size=80,
)


@given(steps=STEPS, count_max=st.sampled_from([1, 2, 1000]))
def test_a_reader_away_from_the_owner_knows_every_aborted_transaction(
    steps: list[tuple[str, int]], count_max: int
) -> None:
    """Whatever is told in parts, skipped, followed anew, asked for and answered late."""
    log, feed = TransactionalLog(), TailFeed()
    state = RemoteState(TailCache(10**9).partition())
    late: list[tuple[int, int, bytes, int, int, int]] = []
    with (
        patch.object(tail_feed, "ABORTED_MAX", count_max),
        patch.object(tail_feed, "SHARE_BYTES_MIN", 1),
        patch.object(remote_state, "ABORTED_MAX", count_max),
    ):
        for step, number in [*steps, ("sync", 0), ("tell", 400), ("tell", 400)]:
            if step == "send":
                log.send(number)
            elif step in ("abort", "commit"):
                entry = log.producers.entry(number)
                if entry is not None and entry.transaction_first_offset >= 0:
                    log.end(number, ControlType.ABORT if step == "abort" else ControlType.COMMIT)
            elif step == "sync":
                ends = [end for _, end, _ in log.batches if end > log.high_watermark]
                if ends:
                    log.sync_to(ends[min(number, len(ends) - 1)] if number else ends[-1])
            elif step == "follow":
                feed.change([interest(0, state.high_watermark)], ())
            elif step == "tell":
                feed.moved(key(0))
                for part, records in feed.collect(max(number, 1), {key(0): log}.get):
                    part.records = memoryview(bytearray(b"".join(records)))
                    state.take(part)
            elif step == "ask":
                aborted, from_offset = aborted_between(log, state.high_watermark, log.high_watermark)
                late.append((log.log_start_offset, log.high_watermark, aborted, from_offset, log.last_stable_offset, 0))
            elif step == "late" and late:
                start, high_watermark, aborted, from_offset, stable, _ = late.pop(number % len(late))
                state.learn_aborted(aborted, from_offset)
                state.learn(
                    log_start_offset=start,
                    high_watermark=high_watermark,
                    last_stable_offset=stable,
                    log_end_offset=high_watermark,
                )
            elif step == "evict":
                log.evict(number * log.high_watermark // 400)
            elif step == "delete":
                log.log_start_offset = max(log.log_start_offset, number * log.high_watermark // 800)
                log.producers.aborted.drop_before(log.log_start_offset)
            check(log, state)


def test_a_cut_part_does_not_say_that_a_transaction_is_over() -> None:
    """It was aborted behind what fits into the answer."""
    log, feed = TransactionalLog(), TailFeed()
    state = RemoteState(TailCache(10**9).partition())
    for producer in (1, 2, 2, 2):
        log.send(producer)
    log.end(2, ControlType.ABORT)
    log.end(1, ControlType.COMMIT)
    log.sync_to(log.log_end_offset)
    feed.change([interest(0, 0)], ())
    stables = []
    with patch.object(tail_feed, "SHARE_BYTES_MIN", 1):
        for _ in range(6):
            for part, records in feed.collect(1, {key(0): log}.get):
                part.records = memoryview(bytearray(b"".join(records)))
                state.take(part)
            stables.append((state.high_watermark, state.last_stable_offset))
    assert stables == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 5), (6, 6)]
    assert state.aborted_transactions(0, 6) == [AbortedTransaction(2, 1)]
