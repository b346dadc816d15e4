"""News for one proxy about the partitions it follows here: their offsets and the newest batches. Decisions only.

The proxy names partitions and its offset in each; the feed remembers how far each was sent. Partitions that moved take
turns: those that did not fit into an answer come first in the next one. Batches no longer in memory are skipped: the
proxy reads them from the store. The high watermark sent is never past the batches sent or skipped, so that a reader at
the end waits for the next answer instead of reading from the store.

The high watermark is sent with the aborted transactions whose marker lies below it, so a reader up to the last stable
offset sent knows them all and need not ask. The last stable offset sent is never past the first record of an aborted
transaction whose marker was not sent yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import structlog

from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.partition_log import TopicPartition
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.internal_messages import EpochStart, ForgottenTail, TailInterest, TailPart
from bmq.protocol.record_batch import BatchHeader

SHARE_BYTES_MIN: Final = 256 * 1024
FOLLOWED_MAX: Final = 100_000
PARTS_MAX: Final = 1_000  # partitions per answer: this many take a few milliseconds
ABORTED_MAX: Final = 1_000
"""Aborted transactions sent per partition and answer, 32 bytes each; readers of older ranges ask for more."""


class OwnedLog(Protocol):
    """The part of bmq.broker.runtime.PartitionRuntime that the feed reads."""

    @property
    def leader_epoch(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def compacted_offset(self) -> int: ...
    @property
    def epoch_starts(self) -> Sequence[tuple[int, int]]: ...
    @property
    def aborted(self) -> AbortedTransactions: ...

    def tail_read(self, offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None: ...


_log = structlog.get_logger("bmq.internode_server")

Find = Callable[[TopicPartition], OwnedLog | None]
"""The partition's log if it is owned here and started."""


class SentPart(NamedTuple):
    """One partition's part of an answer, and its records as views of the tail cache."""

    part: TailPart
    records: Sequence[memoryview]


class _Followed:
    """`next_offset`: follows everything sent or skipped; -1: not known yet. `sent`: the offsets sent last."""

    __slots__ = ("leader_epoch", "next_offset", "sent")

    def __init__(self, leader_epoch: int, next_offset: int) -> None:
        self.leader_epoch = leader_epoch
        self.next_offset = next_offset
        self.sent: tuple[int, int, int, int, int] | None = None


class TailFeed:
    """`followed_max`: limit of partitions; further ones are refused with THROTTLING_QUOTA_EXCEEDED."""

    def __init__(self, followed_max: int = FOLLOWED_MAX) -> None:
        self._followed_max = followed_max
        self._followed: dict[TopicPartition, _Followed] = {}
        self._due: dict[TopicPartition, None] = {}  # partitions that may have news, in turn
        self._refused: list[TopicPartition] = []

    def __len__(self) -> int:
        return len(self._followed)

    def follows(self, key: TopicPartition) -> bool:
        return key in self._followed

    def change(self, added: Iterable[TailInterest], forgotten: Iterable[ForgottenTail]) -> None:
        """Follow the `added` and no longer the `forgotten` ones. Adding one again starts over with it."""
        for gone in forgotten:
            self._forget(TopicPartition(gone.topic_id, gone.partition))
        for wanted in added:
            key = TopicPartition(wanted.topic_id, wanted.partition)
            if key not in self._followed and len(self._followed) >= self._followed_max:
                self._refused.append(key)
                continue
            self._followed[key] = _Followed(wanted.leader_epoch, wanted.offset)
            self._due[key] = None

    def moved(self, key: TopicPartition) -> None:
        """The partition's offsets moved, or it is no longer owned here."""
        if key in self._followed:
            self._due[key] = None

    def collect(self, bytes_max: int, find: Find) -> list[SentPart]:
        """The news now, with about `bytes_max` of records at most: whole batches, at least one if there is any."""
        parts = [SentPart(_refusal(key, ErrorCode.THROTTLING_QUOTA_EXCEEDED), ()) for key in self._refused]
        self._refused.clear()
        due, self._due = self._due, {}
        share_bytes = max(bytes_max // max(len(due), 1), SHARE_BYTES_MIN)
        left = bytes_max
        cut: list[TopicPartition] = []
        for key in due:
            if left <= 0 or len(parts) >= PARTS_MAX:
                self._due[key] = None
                continue
            try:
                one, is_cut = self._collect_one(key, find(key), min(left, share_bytes))
            except Exception:  # noqa: BLE001 one partition's failure must not stop the others
                _log.exception("tail_not_sent", topic_id=str(key.topic_id), partition=key.partition)
                self._forget(key)
                one, is_cut = SentPart(_refusal(key, ErrorCode.NOT_LEADER_OR_FOLLOWER), ()), False
            if one is not None:
                parts.append(one)
                left -= sum(map(len, one.records))
            if is_cut:
                cut.append(key)
        self._due.update(dict.fromkeys(cut))
        return parts

    def _collect_one(
        self, key: TopicPartition, log: OwnedLog | None, length_bytes_max: int
    ) -> tuple[SentPart | None, bool]:
        """The partition's part if there is news, and whether more of it is ready to be sent."""
        followed = self._followed[key]
        code = _code_of(log, followed.leader_epoch)
        if log is None or code is not ErrorCode.NONE:
            self._forget(key)
            return SentPart(_refusal(key, code), ()), False
        high_watermark = log.high_watermark
        records: Sequence[memoryview] = ()
        if followed.next_offset < 0:
            followed.next_offset = high_watermark
        sent_offset = base_offset = followed.next_offset
        if base_offset < high_watermark:
            views = log.tail_read(base_offset, length_bytes_max, high_watermark)
            if views is None:
                base_offset = followed.next_offset = high_watermark
            elif views:
                records = views
                base_offset = BatchHeader.parse(views[0]).base_offset
                followed.next_offset = BatchHeader.parse(views[-1]).end_offset
        visible = min(high_watermark, followed.next_offset)
        stable_offset = min(log.last_stable_offset, visible)
        aborted, aborted_from_offset = b"", -1
        if log.aborted:
            stable_offset = log.aborted.undecided_from(visible, stable_offset)
            aborted, aborted_from_offset = aborted_between(log, sent_offset, visible)
        offsets = (log.log_start_offset, visible, stable_offset, log.log_end_offset, log.compacted_offset)
        is_first = followed.sent is None
        if offsets == followed.sent and not records:
            return None, False
        followed.sent = offsets
        part = TailPart(
            topic_id=key.topic_id,
            partition=key.partition,
            leader_epoch=log.leader_epoch,
            log_start_offset=offsets[0],
            high_watermark=offsets[1],
            last_stable_offset=offsets[2],
            log_end_offset=offsets[3],
            base_offset=base_offset,
            epochs=epoch_starts_of(log) if is_first else (),
            aborted=aborted,
            aborted_from_offset=aborted_from_offset,
            compacted_offset=offsets[4],
        )
        return SentPart(part, records), visible < high_watermark

    def _forget(self, key: TopicPartition) -> None:
        self._followed.pop(key, None)
        self._due.pop(key, None)


def epoch_starts_of(log: OwnedLog) -> tuple[EpochStart, ...]:
    """The log's epochs in the messages' form."""
    return tuple(EpochStart(leader_epoch=epoch, start_offset=start) for epoch, start in log.epoch_starts)


def aborted_between(log: OwnedLog, from_offset: int, to_offset: int) -> tuple[bytes, int]:
    """`aborted` and `aborted_from_offset` of the messages, for markers in [from, to)."""
    table, complete_from = log.aborted.newest(from_offset, to_offset, ABORTED_MAX)
    return table.encode() if table else b"", complete_from if complete_from > from_offset else -1


def _code_of(log: OwnedLog | None, leader_epoch: int) -> ErrorCode:
    if log is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if log.leader_epoch == leader_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if leader_epoch < log.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


def _refusal(key: TopicPartition, code: ErrorCode) -> TailPart:
    return TailPart(topic_id=key.topic_id, partition=key.partition, error_code=code)
