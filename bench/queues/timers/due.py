"""Delayed records that come due: at an even rate, and a million in one second beside producers of other partitions."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from bench.cluster.sides import Side
from bench.findings import say
from bench.loads.client import Client
from bench.queues.timers.delayed import DelayedConsumer, DelayedProducer, make_topic, percentiles
from bench.workloads import LoadFailed

PARTITIONS: Final = 6
REPLICATION: Final = 1
DRAIN_S: Final = 120.0
PRODUCED_PER_S: Final = 25_000
"""Held so fast, unless a sample takes longer: the first record is due when all of them are held."""
SAMPLE: Final = 20_000
SAMPLE_DUE_S: Final = 86_400
MARGIN: Final = 1.5
AHEAD_S: Final = 5.0
OTHER_RECORD_BYTES: Final = 1_024


def hold_s(count: int, sample: int, took_s: float) -> float:
    """How long `count` records may take to be held, as `sample` of them took so long."""
    return count * max(1 / PRODUCED_PER_S, MARGIN * took_s / sample)


def _sampled_hold_s(side: Side, count: int) -> float:
    """The same on this machine as it is now. Raises LoadFailed, AdminFailed."""
    make_topic(side.addresses, "sample", PARTITIONS, REPLICATION)
    producer, sample = DelayedProducer(side.bootstrap, "sample", PARTITIONS), min(SAMPLE, count)
    due_ms = int((time.time() + SAMPLE_DUE_S) * 1000)
    producer.produce(due_ms)
    producer.finish()  # the first takes what the others do not
    began_s = time.monotonic()
    for _ in range(sample):
        producer.produce(due_ms)
    producer.finish()
    limit_s = hold_s(count, sample, time.monotonic() - began_s)
    say(f"  {count} records have {limit_s:.1f} s to be held")
    return limit_s


def error(side: Side, rate_per_s: int, seconds: float) -> dict[str, Any]:
    """Raises LoadFailed, AdminFailed."""
    topic, count = "even", int(rate_per_s * seconds)
    ahead_s = AHEAD_S + _sampled_hold_s(side, count)
    make_topic(side.addresses, topic, PARTITIONS, REPLICATION)
    producer = DelayedProducer(side.bootstrap, topic, PARTITIONS)
    first_ms = int((time.time() + ahead_s) * 1000)
    for number in range(count):
        producer.produce(first_ms + number * 1000 // rate_per_s)
    acknowledged = producer.finish()
    if time.time() * 1000 > first_ms:
        raise LoadFailed(f"{count} records were not held in the {ahead_s:g} s before the first is due")
    consumer = DelayedConsumer(side.bootstrap, topic, PARTITIONS)
    try:
        wait_s = first_ms / 1000 - time.time() + seconds + DRAIN_S
        consumer.poll_until(lambda: len(consumer.received.times) >= count, wait_s)
        consumer.poll(1.0)
    finally:
        consumer.close()
    received = consumer.received
    return {"records": count, **percentiles(received.errors_ms), **received.wrong(acknowledged)}


def thunder(side: Side, client: Client, count: int, other_rate_per_s: float, calm_s: float) -> dict[str, Any]:
    """Raises LoadFailed, AdminFailed."""
    topic, other = "thunder", "other"
    ahead_s = AHEAD_S + _sampled_hold_s(side, count)
    make_topic(side.addresses, topic, PARTITIONS, REPLICATION)
    make_topic(side.addresses, other, PARTITIONS, REPLICATION, has_delay=False)
    producer = DelayedProducer(side.bootstrap, topic, PARTITIONS)
    measured_s = 2 * calm_s + 10
    due_ms = int((time.time() + ahead_s + measured_s) * 1000)
    for number in range(count):
        producer.produce(due_ms + number % 1000)
    acknowledged = producer.finish()

    def others(seconds: float) -> dict[str, Any]:
        return client.produce(
            side.bootstrap, [], other, PARTITIONS,
            record_bytes=OTHER_RECORD_BYTES, warm_s=1, seconds=seconds, rate_per_s=other_rate_per_s,
        )["acknowledged"]  # fmt: skip

    others(2)
    calm = others(calm_s)
    say(f"  calm: {calm}")
    left_s = due_ms / 1000 - time.time()
    if left_s < 1:
        raise LoadFailed(f"the calm time ended {1 - left_s:.1f} s too late")
    time.sleep(left_s - 1)
    consumer = DelayedConsumer(side.bootstrap, topic, PARTITIONS)
    busy: dict[str, Any] = {}
    beside = threading.Thread(target=lambda: busy.update(others(calm_s)), daemon=True)
    beside.start()
    try:
        done = consumer.poll_until(lambda: len(consumer.received.times) >= count, DRAIN_S)
        seconds = time.time() - due_ms / 1000
        consumer.poll(1.0)
    finally:
        beside.join()
        consumer.close()
    if not busy:
        raise LoadFailed("the producers beside it failed")
    received = consumer.received
    say(f"  busy: {busy}")
    return {
        "records": count,
        "finished": done,
        "seconds": round(seconds, 2),
        "calm_p99_us": calm["p99_us"],
        "busy_p99_us": busy["p99_us"],
        "produce_p99_ratio": round(busy["p99_us"] / calm["p99_us"], 3),
        **percentiles(received.errors_ms),
        **received.wrong(acknowledged),
    }
