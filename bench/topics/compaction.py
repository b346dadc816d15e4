"""A log that is compacted on command, and what that costs: the dirty ratio is 1 until everything is written."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

import psutil
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.measure import memory_mib
from bench.topics.sides import CALL_S, Side
from bench.topics.tuning import SEGMENT_BYTES
from bench.workloads import settle
from testing.compaction import topic_ids
from testing.servers import BmqServer

COMPACTION_S_MAX: Final = 900.0
ROLL_S: Final = 2.0
"""How late a server may notice that a segment is old."""
_LOOK_S: Final = 0.25
"""Between two looks, which take milliseconds of the processors that are measured: a manifest is decoded, or a text read."""
_WORKER: Final = "bmq.server.compaction_worker"


@dataclass(frozen=True, slots=True)
class Data:
    """`keys` None: each record has a key of its own. `roll_ms`: `segment.ms`."""

    records: int
    value_bytes: int
    keys: int | None
    roll_ms: int


def fill(side: Side, topic: str, data: Data) -> int:
    """Write it all; the offset up to which it is to be compacted."""
    admin = AdminClient({"bootstrap.servers": side.bootstrap})
    configs = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "1.0",
        "segment.bytes": str(SEGMENT_BYTES),
        "segment.ms": str(data.roll_ms),
    }
    admin.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result(CALL_S)
    if isinstance(side.server, BmqServer):
        side.known.update(topic_ids(side.bootstrap, [topic]))
    producer = Producer({"bootstrap.servers": side.bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 500_000})
    dice = random.Random(7)
    value = dice.randbytes(data.value_bytes)
    for number in range(data.records):
        key = b"%012d" % (number if data.keys is None else dice.randrange(data.keys))
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(CALL_S)
    time.sleep(ROLL_S + data.roll_ms / 1_000)  # what rolls a segment is time
    return _sentinel(producer, topic)


def _sentinel(producer: Producer, topic: str) -> int:
    found: list[int] = []

    def placed(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        assert error is None and offset is not None, error
        found.append(offset)

    producer.produce(topic, b"s", b"sentinel", on_delivery=placed)
    producer.flush(CALL_S)
    return found[0]


def compact(side: Side, topic: str, end_offset: int) -> dict[str, Any]:
    """Let it be compacted: seconds from the word to the end, processor time and memory of all processes for it."""
    settle()
    watch = _Watch(side.server.pid)
    cpu_s = watch.cpu_s()
    began = time.perf_counter()
    allow(side, topic)
    with watch:
        await_compaction(side, topic, end_offset)
    seconds = time.perf_counter() - began
    return {
        "seconds": round(seconds, 3),
        "cpu_s": round(watch.cpu_s() - cpu_s, 2),
        "worker_pss_mib": round(watch.worker_pss_mib, 1),
    }


def allow(side: Side, topic: str) -> None:
    entry = ConfigEntry("min.cleanable.dirty.ratio", "0.0001", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": side.bootstrap})  # has to live as long as its answer is waited for
    admin.incremental_alter_configs([resource])[resource].result(CALL_S)


def await_compaction(side: Side, topic: str, end_offset: int) -> None:
    deadline = time.monotonic() + COMPACTION_S_MAX
    while side.compacted([(topic, 0)]).get((topic, 0), 0) < end_offset:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{side.name} has not compacted {topic} within {COMPACTION_S_MAX:g} s")
        time.sleep(_LOOK_S)


class _Watch:
    """Of a server and the processes it began."""

    def __init__(self, pid: int) -> None:
        self._server = psutil.Process(pid)
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._is_over = threading.Event()
        self.worker_pss_mib = 0.0

    def cpu_s(self) -> float:
        times = [self._server.cpu_times(), *(child.cpu_times() for child in self._server.children(recursive=True))]
        return sum(one.user + one.system for one in times)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            for child in self._server.children():
                try:
                    if _WORKER in child.cmdline():
                        self.worker_pss_mib = max(self.worker_pss_mib, memory_mib(child.pid)["pss_mib"])
                except (psutil.Error, OSError):
                    continue  # it has just ended
