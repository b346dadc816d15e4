"""Gets a topic its data, as fast as the client can."""

from __future__ import annotations

import os
import time
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

FILL_WAIT_S: Final = 300.0
QUEUE_KIB: Final = 128 * 1024
BATCH_BYTES: Final = 1024 * 1024
FAILURES_MAX: Final = 3


class FillFailed(Exception):
    """The topic did not get its data."""


def fill(bootstrap: str, topic: str, partitions: int, size_bytes: int, record_bytes: int) -> float:
    """Add so many bytes of records, round robin; the seconds until all are acknowledged. Raises FillFailed."""
    failures: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None and len(failures) < FAILURES_MAX:
            failures.append(error.str())

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.kbytes": QUEUE_KIB,
            "queue.buffering.max.messages": 0,
            "error_cb": lambda error: None,
            "log_level": 0,
        }
    )
    value = bytes(record_bytes)
    began = time.monotonic()
    for number in range(-(-size_bytes // record_bytes)):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 64 == 0:
            producer.poll(0)
            if failures or time.monotonic() - began > FILL_WAIT_S:
                break
    left = producer.flush(FILL_WAIT_S)
    if left or failures:
        raise FillFailed(f"{size_bytes} bytes were not taken: {left} records without an answer; {failures}")
    took_s = time.monotonic() - began
    os.sync()  # what follows is not to wait for this to be written to the disk
    return took_s
