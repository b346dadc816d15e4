"""Numbered batches that were refused a moment ago: later ones of the same producer must not get past them.

An owner takes any sequence number of a producer that it does not know as its first one, for it may have forgotten the
producer. So if a producer's first batch is refused, and those that its client had sent behind it reach the next owner, they
are written without it, and the first one, sent again, is out of order for good. Kafka has this gap for as long as requests
are under way; here requests wait for partitions that start or move, so it would be wider. So proxies remember what they
refused, and so does an owner: between two batches that it gets a moment after each other, a segment on enough nodes may open.

What is remembered ends when the batch comes again or after `FORGOTTEN_S`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from bmq.log.partition_log import AppendResult
from bmq.protocol.error_codes import RETRIABLE, ErrorCode
from bmq.protocol.record_batch import producer_of

FORGOTTEN_S: Final = 2.0
"""By then the client has read the refusal, and sends nothing more that rests on it."""
PRODUCERS_MAX: Final = 10_000
_SEQUENCES: Final = 2**31


_SENT_AGAIN: Final = RETRIABLE - {ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}  # that one is in the log
BEHIND_A_REFUSED_ONE: Final = AppendResult(
    ErrorCode.NOT_LEADER_OR_FOLLOWER, message="an earlier batch of the producer was refused"
)


class _Refused(NamedTuple):
    sequence: int
    until_s: float


class RefusedSequences:
    """False while nothing is remembered, so that nobody has to look at a header.

    A partition may be named by anything that is the same for all of its batches.
    """

    def __init__(self) -> None:
        self._refused: dict[tuple[Hashable, int, int], _Refused] = {}

    def __bool__(self) -> bool:
        return bool(self._refused)

    def add(
        self,
        partition: Hashable,
        records: memoryview,
        now_s: float,
        error_code: ErrorCode,
    ) -> None:
        """It was refused with this. Nothing is remembered unless its client is going to send it again."""
        producer = producer_of(records) if error_code in _SENT_AGAIN else None
        if producer is None:
            return
        producer_id, producer_epoch, sequence = producer
        key = partition, producer_id, producer_epoch
        known = self._refused.pop(key, None)
        if known is not None and _is_behind(sequence, known.sequence):
            sequence = known.sequence
        self._forget(now_s)
        if len(self._refused) < PRODUCERS_MAX:
            self._refused[key] = _Refused(sequence, now_s + FORGOTTEN_S)

    def is_passed_by(self, partition: Hashable, records: memoryview, now_s: float) -> bool:
        """Whether this batch stands behind one that was refused. The refused one itself may pass, and others behind it."""
        producer = producer_of(records)
        if producer is None:
            return False
        producer_id, producer_epoch, sequence = producer
        key = partition, producer_id, producer_epoch
        known = self._refused.get(key)
        if known is None:
            return False
        if known.until_s > now_s and _is_behind(sequence, known.sequence):
            return True
        del self._refused[key]
        return False

    def _forget(self, now_s: float) -> None:
        """The oldest stand first."""
        refused = self._refused
        while refused:
            key = next(iter(refused))
            if refused[key].until_s > now_s:
                return
            del refused[key]


def _is_behind(sequence: int, other: int) -> bool:
    """Sequences begin again at 0 after the greatest one."""
    return 0 < (sequence - other) % _SEQUENCES < _SEQUENCES // 2
