"""One publisher at a gateway: requests of many records on one stream, made once and sent again and again.

python -m bench.gateway.load '{"address": …, "topic": …, "partitions": …, "record_bytes": …, "records": …, "warm_up_s": …, "seconds": …}'

Prints JSON: how many records were confirmed within the measured seconds.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import grpc

from bmq.gateway.v1.gateway_pb2 import PublishRequest, PublishResponse, Record

METHOD: Final = "/bmq.gateway.v1.Publisher/PublishStream"
UNANSWERED_BYTES_MAX: Final = 3 << 20
"""Less than the gateway takes of a stream before it stops reading (`publish_stream_bytes_max`)."""
ANSWER_WAIT_S: Final = 60.0


class LoadFailed(Exception):
    """Records were refused, or no answer came."""


def requests_of(topic: str, partitions: int, record_bytes: int, records: int) -> list[bytes]:
    """A request for each partition, encoded; values are as random as those of Kafka's own tool."""
    chance = Random(7)

    def request(partition: int) -> bytes:
        values = (bytes(chance.randrange(65, 91) for _ in range(record_bytes)) for _ in range(records))
        found = PublishRequest(topic=topic, records=[Record(value=value, partition=partition) for value in values])
        return found.SerializeToString()

    return [request(number) for number in range(partitions)]


class Publisher:
    """Sends while fewer than `unanswered_max` requests wait for their answer, until it is told to stop."""

    def __init__(self, requests: list[bytes], records: int, unanswered_max: int) -> None:
        self._requests, self._records = requests, records
        self._free = threading.Semaphore(unanswered_max)
        self._is_over = threading.Event()
        self.confirmed = 0

    def sent(self) -> Iterator[bytes]:
        number = 0
        while self._free.acquire(timeout=ANSWER_WAIT_S) and not self._is_over.is_set():
            yield self._requests[number % len(self._requests)]
            number += 1

    def take(self, answer: bytes) -> None:
        """Raises LoadFailed."""
        found = PublishResponse.FromString(answer)
        if found.failures or len(found.offsets) != self._records:
            raise LoadFailed(f"of {self._records} records {len(found.offsets)} were answered: {found.failures[:1]}")
        self.confirmed += self._records
        self._free.release()

    def stop(self) -> None:
        self._is_over.set()
        self._free.release()


def run(arguments: dict[str, Any]) -> dict[str, Any]:
    """Raises LoadFailed, grpc.RpcError."""
    records = arguments["records"]
    requests = requests_of(arguments["topic"], arguments["partitions"], arguments["record_bytes"], records)
    publisher = Publisher(requests, records, max(1, UNANSWERED_BYTES_MAX // len(requests[0])))
    options = [("grpc.max_receive_message_length", 64 << 20)]
    with grpc.insecure_channel(arguments["address"], options=options) as channel:
        call = channel.stream_stream(METHOD)(publisher.sent())
        began_s = time.perf_counter()
        start_s = began_s + arguments["warm_up_s"]
        end_s = start_s + arguments["seconds"]
        counted: tuple[float, int] | None = None
        now_s = began_s
        for answer in call:
            publisher.take(answer)
            now_s = time.perf_counter()
            if counted is None and now_s >= start_s:
                counted = (now_s, publisher.confirmed)
            if now_s >= end_s:
                break
        publisher.stop()
        call.cancel()
    if counted is None or now_s <= counted[0]:
        raise LoadFailed("no answer came in the measured time")
    seconds, confirmed = now_s - counted[0], publisher.confirmed - counted[1]
    return {
        "records": confirmed,
        "all_records": publisher.confirmed,
        "seconds": round(seconds, 3),
        "records_per_s": round(confirmed / seconds, 1),
    }


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
