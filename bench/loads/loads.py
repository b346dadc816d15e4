"""Every load against one fresh cluster, each behind a warm-up of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from bench.cluster.admin import create_topic, create_topics_request, leaders, wait_for_leaders
from bench.cluster.filling import fill
from bench.cluster.sides import Side
from bench.core.client import Client as FrameClient
from bench.core.client import Load
from bench.core.frames import fetch_frames
from bench.loads.client import Client
from bench.loads.plan import Plan
from bench.measure import usage
from bench.warm_up import warm_up
from bench.workloads import consume, java_consume, settle

PARTITIONS: Final = 6
REPLICATION: Final = 3
RECORD_BYTES: Final = 1_024
SMALL_BYTES: Final = 100
RATE_PER_S: Final = 10_000
WARM_UP: Final = "warm-up"
PRODUCED_1K: Final = "produced-1k"
PRODUCED_100B: Final = "produced-100b"
FRESH: Final = "fresh"
FRESH_JAVA: Final = "fresh-java"
RATED: Final = "rated"
IDLE: Final = "idle"
TOPICS: Final = (WARM_UP, PRODUCED_1K, PRODUCED_100B, FRESH, FRESH_JAVA, RATED)
PASSES: Final = 3
WARMING_BYTES: Final = 32 * 1024 * 1024
DROP_CACHES: Final = Path("/proc/sys/vm/drop_caches")
ALL_CACHES: Final = "3"

Attempt = Callable[[str, Callable[[], Any]], None]
"""Perform a load and note what it finds, or why it failed, under its name."""


def run_all(side: Side, client: Client, frames: FrameClient, plan: Plan, attempt: Attempt) -> None:
    """Raises AdminFailed when the cluster gets no topics; a load that fails takes nothing from the others."""
    for topic in TOPICS:
        make_topic(side, topic, PARTITIONS)

    def produce(topic: str, record_bytes: int) -> dict[str, Any]:
        settle()
        return client.produce(
            side.bootstrap,
            side.pids,
            topic,
            PARTITIONS,
            record_bytes=record_bytes,
            warm_s=plan.warm_s,
            seconds=plan.seconds,
        )

    def warming() -> dict[str, Any]:
        return warm_up(lambda: produce(WARM_UP, RECORD_BYTES)["records"] / plan.seconds, plan.warm_ups_max)

    def at_rate() -> dict[str, Any]:
        settle()
        return client.produce(
            side.bootstrap,
            side.pids,
            RATED,
            PARTITIONS,
            record_bytes=RECORD_BYTES,
            warm_s=plan.warm_s,
            seconds=plan.latency_s,
            rate_per_s=RATE_PER_S,
            is_consuming=True,
        )

    attempt("warm_up", warming)
    attempt("produce_1k", lambda: produce(PRODUCED_1K, RECORD_BYTES))
    attempt("fresh_backlog", lambda: fresh_backlog(side, plan.backlog_bytes))
    attempt("fresh_java", lambda: fresh_java(side, plan.backlog_bytes))
    attempt("produce_100b", lambda: produce(PRODUCED_100B, SMALL_BYTES))
    attempt("rate_10k", at_rate)
    attempt("memory", lambda: usage(side.processes))
    attempt("idle_consumers", lambda: idle_consumers(side, frames, plan))
    attempt("old_backlog", lambda: old_backlog(side, plan.backlog_bytes))


def run_many(side: Side, client: Client, plan: Plan, attempt: Attempt) -> None:
    """Topics of many partitions, the same cluster. They are last: what they hold open is in the way of all else."""

    def produce(partitions: int) -> dict[str, Any]:
        topic = f"partitions-{partitions}"
        make_topic(side, topic, partitions)
        fill(side.bootstrap, topic, partitions, partitions * SMALL_BYTES, SMALL_BYTES)  # all are in use from here on
        settle()
        return client.produce(
            side.bootstrap,
            side.pids,
            topic,
            partitions,
            record_bytes=SMALL_BYTES,
            warm_s=plan.many_warm_s,
            seconds=plan.seconds,
        )

    for count in plan.many_partitions:
        attempt(f"partitions_{count}", lambda count=count: produce(count))  # type: ignore[misc]


def make_topic(
    side: Side,
    topic: str,
    partitions: int,
    replication: int = REPLICATION,
    configs: Mapping[str, str] | None = None,
) -> None:
    create_topic(side.addresses, create_topics_request(topic, partitions, replication, configs))
    wait_for_leaders(side.addresses, topic, partitions)


# -- Backlogs --------------------------------------------------------------------------------------------------------------


def fresh_backlog(side: Side, size_bytes: int) -> dict[str, Any]:
    fill(side.bootstrap, FRESH, PARTITIONS, size_bytes, RECORD_BYTES)
    return consume(side, FRESH, size_bytes // RECORD_BYTES, RECORD_BYTES, PASSES)


def fresh_java(side: Side, size_bytes: int) -> dict[str, Any]:
    fill(side.bootstrap, FRESH_JAVA, PARTITIONS, size_bytes, RECORD_BYTES)
    return java_consume(side, FRESH_JAVA, size_bytes // RECORD_BYTES, 1)


def old_backlog(side: Side, size_bytes: int) -> dict[str, Any]:
    """What `fresh_backlog` left, after every server was restarted and the machine's page cache dropped. The servers are
    warmed by records of another topic, so that neither a JVM's compiler nor first connections are what is seen.
    """
    *others, last = side.nodes.values()
    for node in others:
        node.stop()
    last.kill()  # there is nobody left to hand anything over to
    side.start()
    side.wait_whole()
    fill(side.bootstrap, WARM_UP, PARTITIONS, WARMING_BYTES, RECORD_BYTES)
    consume(side, WARM_UP, WARMING_BYTES // RECORD_BYTES, RECORD_BYTES, PASSES)
    settle()
    DROP_CACHES.write_text(ALL_CACHES)
    return consume(side, FRESH, size_bytes // RECORD_BYTES, RECORD_BYTES, PASSES)


# -- Consumers that wait -----------------------------------------------------------------------------------------------


def idle_consumers(side: Side, frames: FrameClient, plan: Plan) -> dict[str, Any]:
    """Each a connection with a fetch under way at the end of the log: no client's own work is in the figure."""
    make_topic(side, IDLE, 1)
    fill(side.bootstrap, IDLE, 1, RECORD_BYTES, RECORD_BYTES)  # it is served when they come
    leader = leaders(side.addresses, IDLE)[0]
    port = int(side.nodes[leader].kafka.rpartition(":")[2])
    load = Load(fetch_frames(IDLE, 1, [1]), plan.idle_consumers, 1)
    return frames.put(port, dict(side.processes), load, warm_s=plan.warm_s, seconds=plan.seconds)
