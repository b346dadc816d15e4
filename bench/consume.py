"""Catch-up consume by librdkafka, partitions assigned by hand; a process of its own so that it measures only itself.

    python -m bench.consume BOOTSTRAP TOPIC RECORD_BYTES PASSES [NAME=VALUE ...]

Reads the topic from offset 0 to the ends it had at the start, `PASSES` times; the first pass is the warm-up. NAME=VALUE are
properties of librdkafka. Prints one JSON line: the seconds of each pass, and the records and value bytes each pass read.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import Consumer, TopicPartition

BATCH_RECORDS_MAX = 10_000
SILENCE_MAX_S = 20.0
QUEUE_BACKOFF_MS = 1
QUEUED_MESSAGES_MIN = 200_000
QUEUED_KIB_MAX = 256 * 1024


class ConsumeFailed(Exception):
    """The consumer got an error, or nothing for too long."""


def read_pass(consumer: Consumer, topic: str, ends: dict[int, int]) -> float:
    """Seconds from the assignment to the last record."""
    left = sum(ends.values())
    began = last_arrival = time.perf_counter()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    while left > 0:
        messages = consumer.consume(BATCH_RECORDS_MAX, timeout=0.2)
        now = time.perf_counter()
        if not messages:
            if now - last_arrival > SILENCE_MAX_S:
                raise ConsumeFailed(f"nothing came for {SILENCE_MAX_S} s, {left} records are missing")
            continue
        last_arrival = now
        # An error is a message too, and always the last of its batch or alone: looking at one is enough.
        if messages[-1].error() is not None:
            raise ConsumeFailed(str(messages[-1].error()))
        left -= len(messages)
    seconds = time.perf_counter() - began
    consumer.unassign()
    return seconds


def main() -> None:
    bootstrap, topic, record_bytes, passes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            # By default librdkafka pauses a partition for a whole second whenever its queue is full: that pause, and not
            # the server, would be what is measured.
            "fetch.queue.backoff.ms": QUEUE_BACKOFF_MS,
            "queued.min.messages": QUEUED_MESSAGES_MIN,
            "queued.max.messages.kbytes": QUEUED_KIB_MAX,
            **dict(given.split("=", 1) for given in sys.argv[5:]),
        }
    )
    partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
    ends = {
        partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)[1]
        for partition in partitions
    }
    seconds = [read_pass(consumer, topic, ends) for _ in range(passes)]
    consumer.close()
    records = sum(ends.values())
    result = {
        "seconds": seconds,
        "records": records,
        "bytes": records * record_bytes,
        # Near the sum of the passes times the number of cores, the client is the limit and not the server.
        "client_cpu_s": time.process_time(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
