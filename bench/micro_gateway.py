"""Publishes by gRPC through one gateway beside Kafka's Java producer on the same processor: `python -m bench.micro_gateway [--smoke]`.

The server and the client in Python, which sends requests that it made before, have one processor; the gateway, or Kafka's
ProducerPerformance, has the other. Records are 100 B, `--batch` of them in a request, on `--streams` streams of PublishStream.
Loads alternate. Prints JSON, and writes .cache/bench-rough/micro_gateway.json. The bound: `rate_ratio`, the median of all rounds,
at least 0.3.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from confluent_kafka.admin import AdminClient, NewTopic

from bench.core.client import pinned_to
from bench.measure import cpu_seconds
from bench.runner import show_rough
from bench.workloads import produce
from bmq.gateway.v1 import gateway_pb2 as messages
from testing.processes import REPOSITORY, ManagedProcess
from testing.servers import BmqServer, bmq_command

DATA: Final = REPOSITORY / ".cache" / "bench-gateway"
TOPIC: Final = "published"
PARTITIONS: Final = 6
RECORD_BYTES: Final = 100
WARM_S: Final = 2.0
UNANSWERED_MAX: Final = 16
"""Requests of each stream."""
BOUNDS: Final = {"rate_ratio": 0.3}
GATEWAY: Final = "gateway"
JAVA: Final = "java"
_METHOD: Final = "/bmq.gateway.v1.Publisher/PublishStream"
_READY: Final = r"^bmq gateway ready grpc=(\S+:\d+)"


class PublishFailed(Exception):
    """A record was not written."""


@dataclass(frozen=True, slots=True)
class Side:
    """What a `bench.workloads` load needs to know of the server."""

    name: str
    bootstrap: str
    processes: dict[str, int]


@dataclass(slots=True)
class Stream:
    """One PublishStream. `written`: records that were answered since `counts_from_s`."""

    channel: grpc.Channel
    request: bytes
    counts_from_s: float
    until_s: float
    written: int = 0
    _room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(UNANSWERED_MAX))

    def run(self) -> None:
        """Raises PublishFailed, grpc.RpcError."""
        answers = self.channel.stream_stream(_METHOD, None, messages.PublishResponse.FromString)(self._requests())
        for answer in answers:
            self._room.release()
            if answer.failures:
                raise PublishFailed(str(answer.failures[0]))
            now_s = time.monotonic()
            if self.counts_from_s <= now_s < self.until_s:
                self.written += len(answer.offsets)

    def _requests(self) -> Iterator[bytes]:
        while time.monotonic() < self.until_s:
            self._room.acquire()
            yield self.request


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each load by the gateway")
    parser.add_argument("--records", type=int, default=5_000_000, help="of each load by Kafka's producer")
    parser.add_argument("--batch", type=int, default=500, help="records in a request")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--smoke", action="store_true", help="one short round: does it run?")
    chosen = parser.parse_args()
    if chosen.smoke:
        chosen.rounds, chosen.seconds, chosen.records = 1, 1.0, 100_000
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        server = BmqServer(DATA / "server")
        stack.callback(server.close)
        with pinned_to(cores[:1]):
            server.start()
        admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        command = [bmq_command(), "gateway", "run", "--listen", "127.0.0.1:0", "--bootstrap", server.bootstrap]
        gateway = ManagedProcess(GATEWAY, command, DATA / "gateway.log")
        stack.callback(gateway.kill)
        with pinned_to(cores[-1:]):
            gateway.start()
        address = gateway.wait_for_line(_READY, 60)[1]
        side = Side("bmq", server.bootstrap, {"server": server.pid})
        found = []
        for number in range(chosen.rounds):
            one: dict[str, Any] = {}
            for name in (JAVA, GATEWAY)[:: 1 if number % 2 == 0 else -1]:
                if name == JAVA:
                    with pinned_to(cores[-1:]):
                        one[JAVA] = produce(side, TOPIC, RECORD_BYTES, chosen.records, chosen.records // 2)
                else:
                    with pinned_to(cores[:1]):
                        one[GATEWAY] = published(address, chosen.streams, chosen.batch, chosen.seconds, gateway.pid)
            found.append(one)
    result = {"rounds": found, "figures": figures(found), "bounds": BOUNDS}
    show_rough("micro_gateway", result)


def published(address: str, streams: int, batch: int, seconds: float, gateway_pid: int) -> dict[str, float]:
    """Records per second that were answered, after WARM_S; and what the gateway's process used meanwhile.

    Raises PublishFailed.
    """
    value = os.urandom(RECORD_BYTES)
    request = messages.PublishRequest(topic=TOPIC, records=[messages.Record(value=value)] * batch).SerializeToString()
    counts_from_s = time.monotonic() + WARM_S
    channels = [grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(streams)]
    running = [Stream(channel, request, counts_from_s, counts_from_s + seconds) for channel in channels]
    failures: list[Exception] = []

    def run(stream: Stream) -> None:
        try:
            stream.run()
        except (PublishFailed, grpc.RpcError) as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(stream,)) for stream in running]
    used = cpu_seconds(gateway_pid)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = cpu_seconds(gateway_pid) - used
    for channel in channels:
        channel.close()
    if failures:
        raise PublishFailed(f"{len(failures)} of {streams} streams: {failures[0]}")
    return {"records_per_s": sum(stream.written for stream in running) / seconds, "gateway_cpu_s": round(used, 2)}


def figures(rounds: list[dict[str, Any]]) -> dict[str, float]:
    """The gateway's rate to the Java producer's: the median of all rounds."""
    ratios = [one[GATEWAY]["records_per_s"] / one[JAVA]["records_per_s"] for one in rounds]
    return {"rate_ratio": statistics.median(ratios)}


if __name__ == "__main__":
    main()
