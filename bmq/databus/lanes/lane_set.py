"""All lanes of an agent, by compression and by whether their oldest records may be dropped. They are made when needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import structlog

from bmq.channels.channel import Compression
from bmq.channels.channel_set import ChannelSet
from bmq.databus.lanes.lane import Lane, LaneLimits
from bmq.databus.lanes.parking import Parking
from bmq.databus.lanes.transactions import Transactions
from bmq.databus.rules import LaneKey, lane_key_of
from bmq.databus.spool.spool import Spool, SpoolBudget

_log = structlog.get_logger("bmq.databus")

DIRECTORY: Final = "lanes"
LINGER_MS_MIN: Final = 20
"""A transaction costs some requests, so that a channel without linger has a bounded number of them."""
TransactionsOf = Callable[[str, str], Transactions]


class LaneSet:
    """`transactions_of` makes those of a name and a codec, `parked_transactions_of` those of a parked topic.

    `refused_topics`: why the cluster takes none of their records.

    Raises SpoolUnusable.
    """

    def __init__(
        self,
        directory: Path,
        budget: SpoolBudget,
        transactions_of: TransactionsOf,
        parked_transactions_of: TransactionsOf,
        *,
        first_number: int,
        segment_bytes: int,
        is_synced: bool,
    ) -> None:
        self.refused_topics: dict[str, str] = {}
        self.lanes: dict[LaneKey, Lane] = {}
        self.parkings: dict[LaneKey, Parking] = {}
        self._directory = directory / DIRECTORY
        self._budget = budget
        self._transactions_of, self._parked_transactions_of = transactions_of, parked_transactions_of
        self._first_number, self._segment_bytes, self._is_synced = first_number, segment_bytes, is_synced
        self._channels = ChannelSet()
        self._is_started = False
        for key in _every_key():
            if (self._directory / key.name).exists():
                self.lane_of(key)

    def lane_of(self, key: LaneKey) -> Lane:
        """Raises SpoolUnusable."""
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = self._open(key)
            self._set_limits(key, lane)
            if self._is_started:
                self._start(key)
        return lane

    def start(self) -> None:
        self._is_started = True
        for key in list(self.lanes):
            self._start(key)

    def use(self, channels: ChannelSet) -> None:
        """Batching follows the channels."""
        self._channels = channels
        for key, lane in self.lanes.items():
            self._set_limits(key, lane)

    def stop(self, wait_s: float) -> bool:
        """Produce what is there for this long. Whether everything is produced. Blocks."""
        until_s = time.monotonic() + wait_s
        for lane in self.lanes.values():
            lane.hurry()
        while not self.is_empty and time.monotonic() < until_s:
            time.sleep(0.02)
        for parking in self.parkings.values():
            parking.stop()
        for lane in self.lanes.values():
            lane.stop()
        for lane in self.lanes.values():
            lane.join(max(0.0, min(1.0, until_s - time.monotonic())))
        return self.is_empty

    @property
    def is_empty(self) -> bool:
        """Whether all records are committed, parked ones among them. A lane parks records before its position passes them."""
        return all(lane.is_empty and not self.parkings[key].waiting() for key, lane in self.lanes.items())

    def spools(self) -> Iterator[Spool]:
        """Those of lanes, of parked topics, and of refused records."""
        for key, lane in list(self.lanes.items()):
            yield lane.spool
            parking = self.parkings[key]
            yield from list(parking.spools.values())
            yield from [refused.spool for refused in list(parking.refused_records.values())]

    # --- parts

    def _open(self, key: LaneKey) -> Lane:
        directory = self._directory / key.name
        spool = self._spool(directory)
        parking = Parking(
            directory,
            self._spool,
            lambda topic: self._parked_transactions_of(f"{key.name}.parked.{topic}", key.compression),
            self._on_topic,
        )
        self.parkings[key] = parking
        lane = Lane(key.name, spool, self._transactions_of(key.name, key.compression), parking, LaneLimits())
        lane.next_number = self._first_number
        return lane

    def _start(self, key: LaneKey) -> None:
        self.parkings[key].start()
        self.lanes[key].start()

    def _spool(self, directory: Path) -> Spool:
        spool = Spool(directory, self._budget, segment_bytes=self._segment_bytes, is_synced=self._is_synced)
        for finding in spool.recovery.findings:
            _log.warning("databus_spool_recovered", reason=finding)
        return spool

    def _set_limits(self, key: LaneKey, lane: Lane) -> None:
        channels = [one for one in self._channels.channels.values() if lane_key_of(one) == key]
        if channels:
            lane.limits.linger_s = max(LINGER_MS_MIN, min(one.linger_ms for one in channels)) / 1_000
            lane.limits.batch_bytes = min(one.batch_bytes for one in channels)

    def _on_topic(self, topic: str, why: str) -> None:
        if not why:
            self.refused_topics.pop(topic, None)
        elif self.refused_topics.get(topic) != why:
            self.refused_topics[topic] = why
            _log.warning("databus_topic_waits", topic=topic, reason=why)


def _every_key() -> Iterator[LaneKey]:
    for compression in Compression:
        yield LaneKey(compression.value, False)
        yield LaneKey(compression.value, True)
