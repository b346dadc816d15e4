"""A lane's consumer joins and leaves again and again, while records of the lane and others come at a fixed rate."""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer

from bench.cluster.admin import create_topic, create_topics_request, wait_for_leaders
from bench.cluster.sides import Side
from bench.findings import say
from bench.queues.groups import configure
from bench.queues.lanes.flip_ledger import FlipLedger, is_of_lane
from bench.workloads import LoadFailed

TOPIC: Final = "flipped"
GROUP: Final = "flipped"
LANE: Final = "blue"
COPIES: Final = f"{TOPIC}.retry.{GROUP}"
PARTITIONS: Final = 4
REPLICATION: Final = 1
RATE_PER_S: Final = 500
GRACE_MS: Final = 200
STAYS_S: Final = (0.0, 0.3, 0.6)
"""Behind its first record, in turn."""
AWAY_S: Final = (0.0, 0.2, 0.5, 1.0)
"""Between two consumers, in turn: within the lane's grace, at its end, and behind it."""
UNCOMMITTED_OF: Final = 5
"""One of so many leaves without a commit."""
FIRST_RECORD_S: Final = 60.0
DRAIN_S: Final = 120.0
FLUSH_S: Final = 60.0
_SAY_OF: Final = 20


class _Producing(threading.Thread):
    """At a fixed rate, until it is told to end. `acknowledged`: numbers."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.finish = threading.Event()
        self.acknowledged: list[int] = []
        self.failed: list[str] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})

    def run(self) -> None:
        number, began_s = 0, time.monotonic()
        while not self.finish.is_set():
            self._send(number)
            number += 1
            self.finish.wait(max(0.0, began_s + number / RATE_PER_S - time.monotonic()))
        left = self._producer.flush(FLUSH_S)
        if left:
            self.failed.append(f"{left} records were not acknowledged within {FLUSH_S:g} s")

    def _send(self, number: int) -> None:
        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.acknowledged.append(number)
            else:
                self.failed.append(str(error))

        headers = [("x-lane", LANE.encode())] if is_of_lane(number) else []
        self._producer.produce(
            TOPIC, b"%d" % number, partition=number // 2 % PARTITIONS, headers=headers, on_delivery=on_delivery
        )
        self._producer.poll(0)


def _consumer(bootstrap: str, group_id: str, *topics: str, **configs: Any) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "client.id": f"lanes:{group_id}",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            **configs,
        }
    )
    consumer.subscribe(list(topics))
    return consumer


def _numbers(messages: list[Message]) -> list[int]:
    """Raises LoadFailed."""
    found = []
    for message in messages:
        value, error = message.value(), message.error()
        if error is not None or value is None:
            raise LoadFailed(str(error))
        found.append(int(value))
    return found


class _Base(threading.Thread):
    """The base group's one member."""

    def __init__(self, bootstrap: str, ledger: FlipLedger) -> None:
        super().__init__(daemon=True)
        self.finish = threading.Event()
        self.failures: list[str] = []
        self._ledger = ledger
        self._consumer = _consumer(bootstrap, GROUP, TOPIC, COPIES)

    def run(self) -> None:
        try:
            while not self.finish.is_set():
                for message in self._consumer.consume(500, 0.1):
                    (number,) = _numbers([message])
                    self._ledger.base_saw(number, is_copy=message.topic() == COPIES)
            self._consumer.close()
        except Exception as error:  # the main thread raises it
            self.failures.append(f"{type(error).__name__}: {error}")


def measure(side: Side, flips: int) -> dict[str, Any]:
    """Raises LoadFailed, AdminFailed."""
    for topic in (TOPIC, COPIES):
        create_topic(side.addresses, create_topics_request(topic, PARTITIONS, REPLICATION))
        wait_for_leaders(side.addresses, topic, PARTITIONS)
    configure(side.addresses, GROUP, {"bmq.lane.enable": "true", "bmq.lane.grace.ms": str(GRACE_MS)})
    ledger = FlipLedger()
    base, producing = _Base(side.bootstrap, ledger), _Producing(side.bootstrap)
    base.start()
    producing.start()
    joins_s: list[float] = []
    began_s = time.monotonic()
    try:
        for number in range(flips):
            if not number % _SAY_OF:
                say(f"  flip {number + 1} of {flips}")
            joins_s.append(_flip(side.bootstrap, ledger, number))
            time.sleep(AWAY_S[number % len(AWAY_S)])
        producing.finish.set()
        producing.join()
        produced = list(producing.acknowledged)
        deadline_s = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline_s and not base.failures and not ledger.has_all(produced):
            time.sleep(0.2)
        time.sleep(2 * GRACE_MS / 1000 + 1)  # what would come a second time
    finally:
        producing.finish.set()
        base.finish.set()
        base.join()
    failures = [*producing.failed, *base.failures]
    if failures:
        raise LoadFailed(failures[0])
    return {
        "flips": flips,
        "records": len(produced),
        "seconds": round(time.monotonic() - began_s, 1),
        "join_p50_s": round(statistics.median(joins_s), 3),
        "join_max_s": round(max(joins_s), 3),
        **ledger.found(produced),
    }


def _flip(bootstrap: str, ledger: FlipLedger, number: int) -> float:
    """A consumer of the lane comes, takes records and leaves; how long its first one took. Raises LoadFailed."""
    is_committed = number % UNCOMMITTED_OF != UNCOMMITTED_OF - 1
    consumer = _consumer(bootstrap, f"{GROUP}@{LANE}", TOPIC, **{"enable.auto.commit": is_committed})
    seen: list[int] = []
    try:
        began_s = time.monotonic()
        while not seen:
            seen += _numbers(consumer.consume(100, 0.05))
            if time.monotonic() - began_s > FIRST_RECORD_S:
                raise LoadFailed(f"the lane had no record within {FIRST_RECORD_S:g} s")
        first_s = time.monotonic() - began_s
        leaves_s = time.monotonic() + STAYS_S[number % len(STAYS_S)]
        while time.monotonic() < leaves_s:
            seen += _numbers(consumer.consume(100, 0.05))
    finally:
        consumer.close()  # commits what was read, unless it is not to
    if is_committed:
        ledger.lane_committed(seen)
    return first_s
