"""Records that the cluster does not take: they wait beside the lane, so that the records of other topics go on.

Each refused topic has a spool and a lane of its own, which tries again. Records keep their numbers: a lane that starts
again hands over the same records, and those that are kept already are known by their numbers. A record that the cluster
takes in no company is kept as refused and never sent again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

from bmq.databus.lanes.lane import Lane, LaneLimits
from bmq.databus.lanes.transactions import SendFailed, TopicsRefused, Transactions
from bmq.databus.spool.frame import SpooledRecord
from bmq.databus.spool.spool import Spool

_log = structlog.get_logger("bmq.databus")

PARKED_TOPICS_MAX: Final = 64
RETRY_S: Final = 3.0
PARKED: Final = "parked"
REFUSED: Final = "refused"
REFUSED_BYTES_MAX: Final = 16 << 20
"""Refused records of one topic take at most this; beyond it the oldest files are deleted."""


class RefusedRecords:
    """Of one parked topic: the lane sends fewer and fewer records until the refused one is found, and keeps that one."""

    def __init__(self, topic: str, spool: Spool, limits: LaneLimits, on_topic: Callable[[str, str], None]) -> None:
        self.spool = spool
        self.limits = limits
        self.count = 0
        self.dropped = 0
        """Of those, how many are kept no longer."""
        self._topic, self._on_topic = topic, on_topic
        self._records_max = limits.transaction_records

    def to_send(self, records: Sequence[SpooledRecord]) -> Sequence[SpooledRecord]:
        return [record for record in records if record.number > self.spool.last]

    def refused(self, error: TopicsRefused, count: int, first: SpooledRecord | None) -> float:
        refusal = error.topics[self._topic]
        if not refusal.is_of_a_record:
            self._on_topic(self._topic, refusal.sentence)
            return RETRY_S
        if count > 1 or first is None:
            self.limits.transaction_records = max(1, count // 2)
            return 0.0
        _log.error("databus_record_refused", topic=self._topic, number=first.number, reason=refusal.sentence)
        _append(self.spool, [first])
        self.count += 1
        self._drop_oldest()
        return 0.0

    def committed(self, position: int) -> None:
        self.limits.transaction_records = min(2 * self.limits.transaction_records, self._records_max)
        self._on_topic(self._topic, "")

    def _drop_oldest(self) -> None:
        while self.spool.bytes_used > REFUSED_BYTES_MAX:
            dropped = self.spool.drop_oldest(0, 0)
            if dropped is None:
                return
            count = sum(dropped.values())
            self.dropped += count
            _log.warning("databus_refused_records_dropped", topic=self._topic, records=count)


class Parking:
    """Of one lane. `transactions_of` makes those of a topic; `on_topic` is told why a topic is refused, or nothing.

    Raises SpoolUnusable.
    """

    def __init__(
        self,
        directory: Path,
        spool_of: Callable[[Path], Spool],
        transactions_of: Callable[[str], Transactions],
        on_topic: Callable[[str, str], None],
    ) -> None:
        self._directory = directory / PARKED
        self._spool_of, self._transactions_of, self._on_topic = spool_of, transactions_of, on_topic
        self._refused: set[str] = set()
        self.spools: dict[str, Spool] = {}
        self.lanes: dict[str, Lane] = {}
        self.refused_records: dict[str, RefusedRecords] = {}
        self._produced_before: dict[str, int] = {}
        self._is_stopping = False
        if self._directory.exists():
            for each in sorted(self._directory.iterdir()):
                self._open(each.name)

    def start(self) -> None:
        """Lanes for the topics that have records."""
        for topic, spool in self.spools.items():
            if spool.position <= spool.last:
                self._start_lane(topic)

    def to_send(self, records: Sequence[SpooledRecord]) -> Sequence[SpooledRecord]:
        if not self.spools:
            return records
        parked: dict[str, list[SpooledRecord]] = {}
        sent = []
        waiting = self.waiting() | self._refused
        for record in records:
            spool = self.spools.get(record.topic)
            if spool is None or (record.number > spool.last and record.topic not in waiting):
                sent.append(record)
            elif record.number > spool.last:
                parked.setdefault(record.topic, []).append(record)
        for topic, kept in parked.items():
            _append(self.spools[topic], kept)
            self._refused.discard(topic)  # from now on its records say that it waits
            if topic in self.lanes:
                self.lanes[topic].notify()
            else:
                self._start_lane(topic)
        return sent

    def refused(self, error: TopicsRefused, count: int, first: SpooledRecord | None) -> float:
        for topic, refusal in error.topics.items():
            if len((self.waiting() | self._refused) - {topic}) >= PARKED_TOPICS_MAX:
                raise SendFailed(f"more than {PARKED_TOPICS_MAX} topics take no records: {refusal.sentence}")
            if topic not in self.spools:
                self._open(topic)
            self._refused.add(topic)
            if not refusal.is_of_a_record:
                self._on_topic(topic, refusal.sentence)
        return 0.0

    def committed(self, position: int) -> None:
        """Lanes that have nothing left end; their spools stay, for the numbers.

        The records of a refused topic may be gone before they are parked, by hand or to make room: it is asked again.
        """
        for topic in self._refused:
            self._on_topic(topic, "")
        self._refused.clear()
        for topic in [topic for topic, lane in self.lanes.items() if lane.is_empty]:
            lane = self.lanes.pop(topic)
            lane.stop()
            for channel, count in lane.produced.items():
                self._produced_before[channel] = self._produced_before.get(channel, 0) + count

    def waiting(self) -> set[str]:
        """Topics that have parked records."""
        return {topic for topic, spool in list(self.spools.items()) if spool.position <= spool.last}

    def produced(self) -> dict[str, int]:
        """Records of parked topics that were produced after all, by channel."""
        found = dict(self._produced_before)
        for lane in list(self.lanes.values()):
            for channel, count in list(lane.produced.items()):
                found[channel] = found.get(channel, 0) + count
        return found

    def stop(self) -> None:
        self._is_stopping = True
        for lane in list(self.lanes.values()):
            lane.stop()

    def _open(self, topic: str) -> None:
        self.spools[topic] = self._spool_of(self._directory / topic)
        refused = self._spool_of(self._directory / topic / REFUSED)
        self.refused_records[topic] = RefusedRecords(topic, refused, LaneLimits(linger_s=0.0), self._on_topic)

    def _start_lane(self, topic: str) -> None:
        if self._is_stopping:
            return
        refusals = self.refused_records[topic]
        transactions = self._transactions_of(topic)
        lane = Lane(f"{PARKED}-{topic}", self.spools[topic], transactions, refusals, refusals.limits)
        self.lanes[topic] = lane
        lane.start()


def _append(spool: Spool, records: Sequence[SpooledRecord]) -> None:
    """Raises SpoolWriteFailed."""
    frames = b"".join(record.frame for record in records)
    counts = Counter(record.channel for record in records)
    spool.append(frames, records[0].number, records[-1].number, counts)
    if spool.is_synced:
        spool.sync()
