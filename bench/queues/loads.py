"""The loads of share consumers: Kafka's own tool over a backlog, and many members that fetch and accept one at a time."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from bench.cluster.admin import create_topics_request
from bench.criteria import BMQ, KAFKA
from bench.groups.target import Target
from bench.loads.client import Client
from bench.measure import total_cpu_seconds
from bench.queues.client import Members
from bench.queues.criteria import LOADS
from bench.queues.frames import Fetching
from bench.queues.groups import configure, initialize, member_ids, topic_id_of
from bench.queues.plan import Plan
from bench.queues.target import filled, node_ids, topic_of
from bench.warm_up import warm_up
from bench.workloads import LoadFailed, settle
from testing.java import PERFORMANCE_JVM_OPTIONS, run_tool

SHARE_CONSUMER_PERFORMANCE: Final = "org.apache.kafka.tools.ShareConsumerPerformance"
PLAIN_CONSUMERS: Final = Path(__file__).with_name("PlainConsumers.java")
PARTITIONS: Final = 8
SMALL_BYTES: Final = 100
TOOL_WAIT_S: Final = 240.0
POLL_MS: Final = 500
BATCH_RECORDS: Final = 10
"""Of a batch whose records are fetched one by one: both servers give a record with the whole batch around it."""
OPENED_S: Final = 0.2
SATURATED_MAX_PER_S: Final = 10_000
"""No server answers more of such fetches: so many records a second are there for loads without a fixed rate."""
REPORT_MS: Final = 1_000
_TIME: Final = "%Y-%m-%d %H:%M:%S:%f"
_LINE: Final = re.compile(
    r"^(\d{4}-\d\d-\d\d [\d:]+), (\d{4}-\d\d-\d\d [\d:]+), [\d.]+, [\d.]+, [\d.]+, (\d+), \d+(?P<each> for .*)?$",
    re.MULTILINE,
)
_numbers: Final[Iterator[int]] = itertools.count(1)


def run_consumers(target: Target, client: Client, plan: Plan, raw: dict[str, Any]) -> None:
    """Every load, each with a group of its own in every pass; the server is warmed by one pass more. On bmq plain consumers
    follow. `raw` is given what is found.
    """
    is_warm = False
    for record_bytes in sorted({size for size, _ in LOADS.values()}):
        records = plan.records_1k if record_bytes == 1_024 else plan.records_100b
        topic = f"records-{record_bytes}"
        filled(target, client, topic_of(target, topic, PARTITIONS), records, record_bytes)
        loads = {name: consumers for name, (size, consumers) in LOADS.items() if size == record_bytes}
        if not is_warm:
            share_consume(target, topic, records, 1)
        for load, consumers in loads.items():
            passes = [share_consume(target, topic, records, consumers) for _ in range(plan.passes)]
            raw[load] = {"share": _together(passes)}
        if target.name == BMQ:
            if not is_warm:
                plain_consume(target, topic, records, 1)
            for load, consumers in loads.items():
                raw[load]["plain"] = plain_consume(target, topic, records, consumers)
        is_warm = True


def share_consume(target: Target, topic: str, records: int, consumers: int) -> dict[str, Any]:
    """kafka-share-consumer-perf-test: each thread is a consumer of the group, which accepts what it is given.

    `records_per_s`: from the first record that any of them was given to the last. `tool_records_per_s`: the tool's own
    figure, which contains the time of joining. Raises LoadFailed, ProcessFailed, AdminFailed.
    """
    settle()
    group_id = f"perf-{next(_numbers)}"
    configure(target.addresses, group_id)
    used = total_cpu_seconds(target.pids)
    done = run_tool(
        SHARE_CONSUMER_PERFORMANCE,
        *("--bootstrap-server", target.bootstrap, "--topic", topic, "--group", group_id),
        *("--num-records", str(records), "--threads", str(consumers), "--timeout", "30000"),
        *("--show-detailed-stats", "--reporting-interval", str(REPORT_MS), "--hide-header"),
        jvm_options=PERFORMANCE_JVM_OPTIONS,
        timeout_s=TOOL_WAIT_S,
    )
    used = total_cpu_seconds(target.pids) - used
    return {**parsed(done.out, records), "server_cpu_s": round(used, 2)}


def parsed(out: str, records: int) -> dict[str, Any]:
    """Of the tool's lines: a first one for each consumer when it has its first record, and at last one for all.

    Raises LoadFailed.
    """
    lines = list(_LINE.finditer(out))
    if not lines or lines[-1]["each"] is not None or int(lines[-1][3]) < records:
        raise LoadFailed(f"share-consumer-perf: {out[-2_000:]}")
    began, ended = (datetime.strptime(lines[-1][place], _TIME) for place in (1, 2))
    firsts = [datetime.strptime(line[2], _TIME) for line in lines if line["each"] is not None]
    if not firsts:
        raise LoadFailed(f"share-consumer-perf says nothing of its first record: {out[-2_000:]}")
    read = int(lines[-1][3])
    return {
        "records": read,
        "first_record_s": (min(firsts) - began).total_seconds(),
        "records_per_s": read / (ended - min(firsts)).total_seconds(),
        "tool_records_per_s": read / (ended - began).total_seconds(),
    }


def plain_consume(target: Target, topic: str, records: int, consumers: int) -> dict[str, Any]:
    """Plain consumers side by side (PlainConsumers.java); `records_per_s` as in `share_consume`. Raises LoadFailed."""
    settle()
    done = run_tool(
        str(PLAIN_CONSUMERS),
        *(target.bootstrap, topic, f"plain-{next(_numbers)}", str(PARTITIONS), str(records), str(consumers)),
        jvm_options=PERFORMANCE_JVM_OPTIONS,
        timeout_s=TOOL_WAIT_S,
    )
    found: dict[str, Any] = json.loads(done.out.strip().splitlines()[-1])
    if found["records"] < records or found["seconds"] <= 0:
        raise LoadFailed(f"plain consumers: {done.text[-2_000:]}")
    return {**found, "records_per_s": found["records"] / found["seconds"]}


def _together(passes: list[dict[str, Any]]) -> dict[str, Any]:
    """Rates as the mean of all passes, processor time and records as their sum."""
    means = ("first_record_s", "records_per_s", "tool_records_per_s")
    return {
        **{name: sum(one[name] for one in passes) / len(passes) for name in means},
        **{name: sum(one[name] for one in passes) for name in ("records", "server_cpu_s")},
        "passes": passes,
    }


def run_acks(target: Target, client: Client, members: Members, plan: Plan, raw: dict[str, Any]) -> None:
    """Members that fetch one record, and accept it with the next fetch: at a fixed rate, and as many as are answered.

    Raises LoadFailed, AdminFailed, OSError.
    """
    topic = "ones"
    free_s = plan.warm_ups_max * (OPENED_S + plan.warming_s) + plan.warm_s + plan.seconds
    records = SATURATED_MAX_PER_S * free_s + plan.ack_rate * (plan.warm_s + plan.seconds)
    request = create_topics_request(topic, 0, 0, assignments=_led_by_first(target))
    filled(target, client, request, int(records), SMALL_BYTES, {"batch.num.messages": str(BATCH_RECORDS)})
    group_id = "ones"
    configure(target.addresses, group_id)
    initialize(target.addresses, group_id, topic, PARTITIONS)
    topic_id = topic_id_of(target.addresses, topic)

    def put(rate_per_s: float, warm_s: float, seconds: float) -> dict[str, Any]:
        settle()
        ids = member_ids(plan.members, f"m{next(_numbers):04d}")
        asked = Fetching(group_id, topic_id, [(one, number % PARTITIONS) for number, one in enumerate(ids)], POLL_MS)
        port = int(target.addresses[0].rpartition(":")[2])
        return members.fetch(port, target.pids, asked, rate_per_s=rate_per_s, warm_s=warm_s, seconds=seconds)

    raw["warm_up"] = warm_up(
        lambda: put(0, OPENED_S, plan.warming_s)["round_trips"] / plan.warming_s, plan.warm_ups_max
    )
    raw["rated"] = put(plan.ack_rate, plan.warm_s, plan.seconds)
    raw["saturated"] = put(0, plan.warm_s, plan.seconds)


def _led_by_first(target: Target) -> dict[int, Sequence[int]]:
    """The nodes of each partition: all are led by the node at the first address, which the client in C knows alone."""
    ids = node_ids(target.addresses)
    return dict.fromkeys(range(PARTITIONS), ids[: target.replication] if target.name == KAFKA else ids[:1])
