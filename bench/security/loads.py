"""The loads of each part, on one node."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from bench.core.client import Client as FrameClient
from bench.core.client import Load
from bench.core.frames import fetch_frames, produce_frames
from bench.loads.client import Client
from bench.security.plan import Plan
from bench.security.sides import PLAIN, SSL, Certificates, Secured, bootstrap
from bench.security.strangers import Strangers
from bench.workloads import LoadFailed, python_consume
from testing.java import CONFIGS, PERFORMANCE_JVM_OPTIONS, PRODUCER_PERFORMANCE, TOPICS, java_command, run_tool
from testing.processes import dying_with_us, eventually
from testing.wire import LATEST_TIMESTAMP, NONE, WireClient

PARTITIONS: Final = 6
RECORD_BYTES: Final = 1_024
SMALL_CONNECTIONS: Final = 16
SMALL_FETCH_BYTES: Final = 4_096
STRANGERS_RATE_PER_S: Final = 500
ACLS_A_REQUEST: Final = 1_000
ACL_WAIT_S: Final = 120
TOPIC_WAIT_S: Final = 30.0
QUOTA_QUEUE_RECORDS: Final = 2_000
_WINDOW: Final = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec")


class Tls:
    """Produce and consume by librdkafka over the TLS listener."""

    def __init__(self, client: Client, certificates: Certificates, plan: Plan) -> None:
        self._client, self._certificates, self._plan = client, certificates, plan

    def run(self, side: Secured, raw: dict[str, Any]) -> None:
        plan, properties = self._plan, self._certificates.of_clients
        make_topic(bootstrap(side, PLAIN), "tls")
        pids = [side.server.pid]
        produced = self._client.produce(
            bootstrap(side, SSL),
            pids,
            "tls",
            PARTITIONS,
            record_bytes=RECORD_BYTES,
            warm_s=plan.warm_s,
            seconds=plan.seconds,
            properties=properties,
        )
        raw["produce"] = {**produced, "value_bytes": produced["records"] * RECORD_BYTES}
        target = OneListener(side, SSL)
        raw["consume"] = python_consume(target, "tls", RECORD_BYTES, plan.passes, properties)


class OneListener:
    """A node as bench.workloads sees it, by one of its listeners."""

    def __init__(self, side: Secured, listener: str) -> None:
        self.name = side.server.name
        self.bootstrap = bootstrap(side, listener)
        self.processes: Mapping[str, int] = {side.server.name: side.server.pid}


def make_topic(address: str, topic: str) -> None:
    """It takes records when this returns. `address`: HOST:PORT of a plain listener, or several after commas."""
    run_tool(
        TOPICS,
        *("--bootstrap-server", address, "--create", "--topic", topic),
        *("--partitions", str(PARTITIONS), "--replication-factor", "1"),
    )
    host, _, port = address.partition(",")[0].rpartition(":")
    eventually(lambda: _is_served(host, int(port), topic), TOPIC_WAIT_S, f"{topic} is served")


def _is_served(host: str, port: int, topic: str) -> bool:
    """Kafka names leaders some time before they lead."""
    with WireClient(port, host=host) as client:
        answers = client.list_offsets(topic, range(PARTITIONS), LATEST_TIMESTAMP)
    return all(code == NONE for code, _ in answers.values())


# -- ACLs ------------------------------------------------------------------------------------------------------------


def add_acls(side: Secured, count: int, topic: str) -> None:
    """`count` ACLs of other users and topics, and those that the load needs. Raises what the admin client raises."""
    admin = AdminClient({"bootstrap.servers": bootstrap(side, PLAIN)})
    bindings = [
        _binding(f"team-{number % 100}.topic-{number}", f"User:u{number % 500}", AclOperation.READ)
        for number in range(count)
    ]
    bindings += [_binding(topic, "User:ANONYMOUS", operation) for operation in (AclOperation.READ, AclOperation.WRITE)]
    for first in range(0, len(bindings), ACLS_A_REQUEST):
        for done in admin.create_acls(bindings[first : first + ACLS_A_REQUEST]).values():
            done.result(ACL_WAIT_S)


def _binding(topic: str, principal: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, principal, "*", operation, AclPermissionType.ALLOW
    )


def small_requests(side: Secured, frames: FrameClient, topic: str, warm_s: float, seconds: float) -> dict[str, Any]:
    """Produces of one record, and fetches of at most 4 KiB, each with the server's processor time a request."""
    now_ms = int(time.time() * 1000)
    processes = {side.server.name: side.server.pid}
    loads = {
        "produce": Load(
            produce_frames(topic, [[number] for number in range(PARTITIONS)], 100, 1, now_ms), SMALL_CONNECTIONS, 1
        ),
        "fetch": Load(fetch_frames(topic, 1, [0], SMALL_FETCH_BYTES), SMALL_CONNECTIONS, 1),
    }
    found = {}
    for name, load in loads.items():
        one = frames.put(side.ports[PLAIN], processes, load, warm_s=warm_s, seconds=seconds)
        found[name] = {**one, "cpu_us_per_request": one["server_cpu_s"] / one["answers"] * 1e6}
    return found


# -- Quotas ----------------------------------------------------------------------------------------------------------


def set_quota(address: str, bytes_per_s: int) -> None:
    """For each client id that has none of its own."""
    run_tool(
        CONFIGS,
        *("--bootstrap-server", address, "--alter", "--entity-type", "clients", "--entity-default"),
        *("--add-config", f"producer_byte_rate={bytes_per_s}"),
    )


def rates_under_quota(address: str, pids: Sequence[int], client: Client, plan: Plan) -> dict[str, float]:
    """Bytes of values a second by client, while all produce as fast as they may, each under a client id of its own."""
    with ThreadPoolExecutor(2) as threads:
        clients = {
            "librdkafka": threads.submit(_librdkafka_rate, address, pids, client, plan),
            "java": threads.submit(_java_rate, address, plan),
        }
        return {name: rate.result() for name, rate in clients.items()}


def _librdkafka_rate(address: str, pids: Sequence[int], client: Client, plan: Plan) -> float:
    found = client.produce(
        address,
        pids,
        "quota",
        PARTITIONS,
        record_bytes=RECORD_BYTES,
        warm_s=plan.quota_warm_s,
        seconds=plan.quota_s,
        queue_records=QUOTA_QUEUE_RECORDS,
        properties={"client.id": "librdkafka"},
    )
    return float(found["records"]) * RECORD_BYTES / plan.quota_s


def _java_rate(address: str, plan: Plan) -> float:
    """By the windows of five seconds that ProducerPerformance prints, each counted when it ended in the measured time."""
    arguments = (
        *("--bootstrap-server", address, "--topic", "quota", "--record-size", str(RECORD_BYTES)),
        *("--num-records", "100000000", "--throughput", "-1"),
        *("--command-property", "client.id=java", "--command-property", "buffer.memory=2097152"),
    )
    process = subprocess.Popen(
        dying_with_us(java_command(PRODUCER_PERFORMANCE, arguments, PERFORMANCE_JVM_OPTIONS)),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    began, windows = time.monotonic(), []
    try:
        for line in process.stdout:
            now = time.monotonic() - began
            found = _WINDOW.match(line)
            if found and now > plan.quota_warm_s:
                windows.append(float(found[2]))
            if now > plan.quota_warm_s + plan.quota_s:
                break
    finally:
        process.kill()
        process.wait()
    return _mean(windows) * RECORD_BYTES


def _mean(windows: Sequence[float]) -> float:
    if not windows:
        raise LoadFailed("ProducerPerformance printed no window in the measured time")
    return sum(windows) / len(windows)


# -- Strangers -------------------------------------------------------------------------------------------------------


def beside_strangers(
    side: Secured, frames: FrameClient, topic: str, plan: Plan, returns_per_s: float | None
) -> dict[str, Any]:
    """Latencies of small requests at a fixed rate, first alone, then beside connections that stopped half-way.

    `returns_per_s`: see bench.security.strangers.Places.
    """
    now_ms = int(time.time() * 1000)
    produces = produce_frames(topic, [[number] for number in range(PARTITIONS)], 100, 1, now_ms)
    load = Load(produces, SMALL_CONNECTIONS, 1, STRANGERS_RATE_PER_S)
    processes = {side.server.name: side.server.pid}

    def measure() -> dict[str, Any]:
        return frames.put(side.ports[PLAIN], processes, load, warm_s=plan.warm_s, seconds=plan.strangers_s)

    without = measure()
    with Strangers(side.ports, plan.strangers, returns_per_s) as strangers:
        strangers.arrive()
        found = measure()
        return {"without": without, "with": {**found, "strangers": strangers.opened, "closed": strangers.closed}}
