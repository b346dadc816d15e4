"""Half messages that are committed by a record, on bmq, and transactions of one record, on Apache Kafka: how many a second."""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from bench.cluster.admin import create_topic, create_topics_request, wait_for_leaders
from bench.criteria import BMQ
from bench.groups.clients import Transactor
from bench.groups.target import Target, ready
from bench.queues.half.criteria import HALF
from bench.warm_up import warm_up
from bench.workloads import LoadFailed

TOPIC: Final = "half"
PARTITIONS: Final = 6
PRODUCERS: Final = 16
RECORD_BYTES: Final = 100
VISIBLE_WAIT_S: Final = 60.0
_OFFSET_BEGINNING: Final = -2
_POLLED_RECORDS: Final = 5_000


def measure(
    target: Target,
    client: Transactor,
    warming_s: float,
    warm_ups_max: int,
    warm_s: float,
    seconds: float,
    raw: dict[str, Any],
) -> None:
    """One side of a pair. Afterwards all that was committed has to be visible, and nothing else. Raises LoadFailed, AdminFailed."""
    is_half = target.name == BMQ
    configs = {"bmq.half.enable": "true"} if is_half else {}
    create_topic(target.addresses, create_topics_request(TOPIC, PARTITIONS, target.replication, configs))
    wait_for_leaders(target.addresses, TOPIC, PARTITIONS)
    ready(target)
    committed = 0

    def run(before_s: float, measured_s: float) -> dict[str, Any]:
        nonlocal committed
        found = client.transact(
            target, TOPIC, PARTITIONS,
            producers=PRODUCERS, records=1, record_bytes=RECORD_BYTES, warm_s=before_s, seconds=measured_s, is_half=is_half,
        )  # fmt: skip
        committed += found["all"]
        return found

    raw["warm_up"] = warm_up(lambda: float(run(0, warming_s)["transactions"]), warm_ups_max, 2)
    raw["small"] = run(warm_s, seconds)
    raw["visible"] = _visible(target, committed)
    if raw["visible"] != committed:
        raise LoadFailed(f"{committed} were committed, and a reader sees {raw['visible']}")


def _visible(target: Target, wanted: int) -> int:
    """What a reader of committed records sees, once it has had time for so many."""
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": HALF,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, number, _OFFSET_BEGINNING) for number in range(PARTITIONS)])
        seen, give_up_s, is_over = 0, time.monotonic() + VISIBLE_WAIT_S, False
        while not is_over:
            # What is one too many comes within the look behind the last one.
            is_over = seen >= wanted or time.monotonic() > give_up_s
            for message in consumer.consume(_POLLED_RECORDS, 1.0 if is_over else 0.1):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise LoadFailed(str(error))
                seen += error is None
        return seen
    finally:
        consumer.close()
