"""CPU the proxy spends on a Produce and on a Fetch request: `python -m bench.micro_proxy`.

A server process on loopback under uvloop over logs that answer at once, so that only frames, parsing, routing, encoding and
writing are measured; this process sends. Figures are CPU microseconds of the server process per request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection as Pipe
from random import Random
from typing import Any
from uuid import UUID

import psutil
import uvloop

from bmq.log.config import LogConfig
from bmq.log.partition_log import AppendResult, ProducedBatch, TopicPartition
from bmq.metadata.image import MetadataImage, Node, PartitionImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.codec import decode_response, encode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from bmq.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from bmq.proxy.appender import Appender
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.producer_ids import ProducerIds
from bmq.proxy.server import KafkaServer
from bmq.proxy.services import Services
from bmq.proxy.stats import ProxyStats

TOPIC_ID = UUID(int=0xB)
PARTITION_COUNT = 6
BATCH_BYTES = 16 * 1024
PRODUCE_VERSION = 11
RECORDS_PER_BATCH = 16
PRODUCE_BOUND_US = 40.0
FETCH_BOUND_US = 60.0


class InstantLog:
    """A partition that is always done, and always has one more batch."""

    leader_epoch = 0
    log_start_offset = 0

    def __init__(self, topic_partition: TopicPartition, data: bytes) -> None:
        self.topic_partition = topic_partition
        self.high_watermark = self.last_stable_offset = self.log_end_offset = 2**40
        self._views = [memoryview(data)]
        self._next_offset = 0

    def append(self, batch: ProducedBatch) -> None:
        self._next_offset += 1
        batch.complete(AppendResult(ErrorCode.NONE, self._next_offset, -1, 0))

    def tail_read(self, offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview]:
        return self._views

    def aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[Any]:
        return ()

    def on_advance(self, wake: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


class InstantPartitions:
    def __init__(self, data: bytes) -> None:
        keys = [TopicPartition(TOPIC_ID, number) for number in range(PARTITION_COUNT)]
        self._logs = {key: InstantLog(key, data) for key in keys}

    def ready(self, topic_partition: TopicPartition) -> Any:
        return self._logs.get(topic_partition)

    async def leader_of(self, topic_partition: TopicPartition) -> Any:
        return self._logs[topic_partition]


class StillController:
    def __init__(self, node: Node) -> None:
        partitions = tuple(PartitionImage(number, 1, 0, (1,), (1,)) for number in range(PARTITION_COUNT))
        topic = TopicImage("bench", TOPIC_ID, partitions, {}, LogConfig())
        self.image = MetadataImage(
            1,
            "bench",
            1,
            nodes={1: node},
            topics={topic.name: topic},
            topics_by_id={TOPIC_ID: topic},
            partition_count=PARTITION_COUNT,
        )

    async def allocate_producer_ids(self) -> range:
        return range(1)


def _batch() -> bytes:
    value_bytes = BATCH_BYTES // RECORDS_PER_BATCH - 14
    values = [Random(number).randbytes(value_bytes) for number in range(RECORDS_PER_BATCH)]
    return bytes(encode_batch([Record(None, value, (), 1_700_000_000_000) for value in values]))


async def _serve(pipe: Pipe) -> None:
    loop = asyncio.get_running_loop()
    node = Node(1, "127.0.0.1", 0)
    partitions, controller, stats = InstantPartitions(_batch()), StillController(node), ProxyStats()
    store: Any = None
    services = Services(
        node=node,
        store=store,
        partitions=partitions,  # type: ignore[arg-type]
        controller=controller,  # type: ignore[arg-type]
        groups=None,  # type: ignore[arg-type]
        transactions=None,  # type: ignore[arg-type]
        markers=None,  # type: ignore[arg-type]
        clock=None,  # type: ignore[arg-type]
        appender=Appender(partitions, retries=False),  # type: ignore[arg-type]
        fetcher=Fetcher(store, FetchSettings(), random=Random(1)),
        producer_ids=ProducerIds(controller.allocate_producer_ids),
        stats=stats,
        loop=loop,
    )
    server = KafkaServer(ProxyLimits(), stats)
    pipe.send((await server.bind("127.0.0.1", 0))[1])
    await server.serve(services)
    await loop.run_in_executor(None, pipe.recv)
    await server.stop(1)


def _server_process(pipe: Pipe) -> None:
    uvloop.run(_serve(pipe))


def _produce_frame(partitions: Sequence[int]) -> bytes:
    data = [PartitionProduceData(index=number, records=_batch()) for number in partitions]
    topics = [TopicProduceData(name="bench", topic_id=TOPIC_ID, partition_data=data)]
    return _framed(
        encode_request(
            ApiKey.PRODUCE, PRODUCE_VERSION, 1, "bench", ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
        )
    )


def _fetch_frame(version: int) -> bytes:
    wanted = [FetchPartition(partition=n, fetch_offset=5, partition_max_bytes=1 << 20) for n in range(PARTITION_COUNT)]
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        topics=[FetchTopic(topic="bench", topic_id=TOPIC_ID, partitions=wanted)],
    )
    return _framed(encode_request(ApiKey.FETCH, version, 1, "bench", request))


def _framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def _check_produced(answer: bytes) -> None:
    response = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, answer)[1]
    results = [partition for topic in response.responses for partition in topic.partition_responses]
    if not results or any(result.error_code for result in results):
        raise ValueError(f"a refused produce is not what is measured: {results}")


def _check_fetched(version: int) -> Callable[[bytes], None]:
    def check(answer: bytes) -> None:
        response = decode_response(ApiKey.FETCH, version, answer)[1]
        found = [partition for topic in response.responses for partition in topic.partitions]
        if len(found) != PARTITION_COUNT or any(one.error_code or not one.records for one in found):
            raise ValueError(f"{len(found)} partitions answered, or not all with records")

    return check


def _drive(port: int, frame: bytes, count: int, in_flight: int, check: Callable[[bytes], None]) -> None:
    """`in_flight` requests under way, until `count` are answered. `check` looks at the first answer."""
    with socket.create_connection(("127.0.0.1", port)) as made:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with made.makefile("rb", buffering=1 << 20) as answers:
            made.sendall(frame * in_flight)
            for number in range(count):
                size = int.from_bytes(answers.read(4), "big")
                answer = answers.read(size)
                if len(answer) != size:
                    raise ConnectionError("the server closed the connection")
                if number == 0:
                    check(answer)
                if number + in_flight < count:
                    made.sendall(frame)


def measure(count: int, in_flight: int, repeats: int) -> dict[str, list[float]]:
    """CPU microseconds of the server per request, each sample after a warm-up."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_server_process, args=(theirs,))
    process.start()
    samples: dict[str, list[float]] = {}
    try:
        port = ours.recv()
        usage = psutil.Process(process.pid)
        for name, frame, check in (
            ("produce_1_partition_16k_us", _produce_frame([0]), _check_produced),
            ("produce_6_partitions_16k_us", _produce_frame(range(PARTITION_COUNT)), _check_produced),
            ("fetch_6_partitions_v11_us", _fetch_frame(11), _check_fetched(11)),
            ("fetch_6_partitions_v17_us", _fetch_frame(17), _check_fetched(17)),
        ):
            _drive(port, frame, count // 10, in_flight, check)
            for _ in range(repeats):
                before = usage.cpu_times()
                _drive(port, frame, count, in_flight, check)
                after = usage.cpu_times()
                spent_s = after.user + after.system - before.user - before.system
                user_s = after.user - before.user
                samples.setdefault(name, []).append(round(spent_s / count * 1e6, 1))
                samples.setdefault(name.replace("_us", "_user_us"), []).append(round(user_s / count * 1e6, 1))
        ours.send("stop")
        process.join(10)
    finally:
        process.kill()
        process.join()
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--in-flight", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    began_s = time.monotonic()
    samples = measure(options.count, options.in_flight, options.repeats)
    medians = {name: sorted(values)[len(values) // 2] for name, values in samples.items()}
    criteria: list[dict[str, Any]] = [
        {
            "id": "produce_request_us",
            "value": medians["produce_1_partition_16k_us"],
            "op": "<=",
            "bound": PRODUCE_BOUND_US,
        },
        {"id": "fetch_request_us", "value": medians["fetch_6_partitions_v11_us"], "op": "<=", "bound": FETCH_BOUND_US},
    ]
    for criterion in criteria:
        criterion["holds"] = criterion["value"] <= criterion["bound"]
    report = {
        "samples": samples,
        "medians": medians,
        "criteria": criteria,
        "seconds": round(time.monotonic() - began_s, 1),
    }
    json.dump(report, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
