"""A producer at a steady rate, which knows for how long each of its partitions was without an answer."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, Message

from testing.patience import Patience, stalled_s
from testing.processes import eventually
from testing.steady_load import SteadyProducer

RECORDS_S = 400
"""Most tests wait until so many more records are acknowledged, beside three nodes that are to do their work. A higher rate takes
their processors, and leaves more to catch up on after a failover.
"""
# Tests look for hangs, whatever the machine; bench/cluster measures how long a failover takes. These clients ask again by
# themselves after 120 s: a gap of that length shows that nobody took their batches to the next owner.
PATIENCE = {"request.timeout.ms": 120_000, "socket.timeout.ms": 120_000}
# On a quiet machine, once the loss is noticed: new owners are named, they start, and clients come back from their backoff.
FAILOVER_MAX_S: Final = 15.0


class PacedProducer(SteadyProducer):
    """SteadyProducer at `records_s`, spread evenly over the partitions: it leaves the processor to what is tested.

    `gaps_s`: by partition, the longest time between two acknowledgements that followed each other.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, records_s: int = RECORDS_S, **settings: object
    ) -> None:
        self.gaps_s: defaultdict[int, float] = defaultdict(float)
        self._measured_since_s = time.monotonic()
        self.acknowledged_counts = [0] * partitions
        self._acknowledged_at: dict[int, float] = {}
        self._records_s = records_s
        super().__init__(bootstrap, topic, partitions, **settings)

    @property
    def longest_gap_s(self) -> float:
        return max(self.gaps_s.values(), default=0.0)

    def forget_gaps(self) -> None:
        """Measure from now on."""
        self.gaps_s.clear()
        self._measured_since_s = time.monotonic()

    def assert_no_hang(self, noticed_after_s: float = 0.0) -> None:
        """No partition went without an acknowledgement for longer than a failover may take on this machine.

        `noticed_after_s`: how long the loss stays unnoticed: 0 for a node that dies, its session for one that hangs.
        What the machine stood still does not count. Raises AssertionError.
        """
        allowed_s = noticed_after_s + Patience(FAILOVER_MAX_S).limit_s + stalled_s(self._measured_since_s)
        assert self.longest_gap_s < allowed_s, (
            f"{self.longest_gap_s:.1f} s without an answer, {allowed_s:.1f} allowed: {dict(self.gaps_s)}"
        )

    def wait_for_every_partition(self, count: int, timeout_s: float = 90) -> None:
        """Return once each partition has acknowledged `count` more records."""
        targets = [before + count for before in self.acknowledged_counts]

        def reached() -> bool:
            return all(map(int.__ge__, self.acknowledged_counts, targets))

        try:
            eventually(reached, timeout_s, "reached")
        except AssertionError:
            raise AssertionError(
                f"not within {timeout_s} s: each partition acknowledges {count} more records; "
                f"{self.acknowledged_counts} of {targets}, failed: {self.failed[:5]}"
            ) from None

    def go_on_for(self, seconds: float) -> None:
        """Return after so much load."""
        self._finish.wait(seconds)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        super()._on_delivery(error, message)
        if error is None:
            partition, now = message.partition(), time.monotonic()
            gap_s = now - self._acknowledged_at.get(partition, now)
            self.gaps_s[partition] = max(self.gaps_s[partition], gap_s)
            self._acknowledged_at[partition] = now
            self.acknowledged_counts[partition] += 1

    def _run(self) -> None:
        began_at = time.monotonic()
        while not self._finish.is_set():
            due = min(int((time.monotonic() - began_at) * self._records_s) - self.sent_count, self._records_s)
            for _ in range(due):
                try:
                    self._producer.produce(
                        self.topic,
                        b"%d" % self.sent_count,
                        partition=self.sent_count % self.partitions,
                        on_delivery=self._on_delivery,
                    )
                except BufferError:
                    break
                self.sent_count += 1
            self._producer.poll(0.005)


@contextmanager
def producing(
    bootstrap: str, topic: str, partitions: int, records_s: int = RECORDS_S, **settings: object
) -> Iterator[PacedProducer]:
    """Under load while inside; afterwards every record has its answer."""
    producer = PacedProducer(bootstrap, topic, partitions, records_s, **{**PATIENCE, **settings})
    try:
        # What is measured and hurt is a running load, not the making of its connections.
        producer.wait_for_every_partition(20)
        producer.forget_gaps()
        yield producer
    finally:
        producer.finish()
