"""What transactions, committed offsets and groups have to show beside Apache Kafka, on one node and on three. Pure.

Ids that begin with `one_` are of one node, the others of three.
"""

from __future__ import annotations

import statistics
from typing import Final

from bench.criteria import (
    BMQ,
    KAFKA,
    Absolute,
    Criterion,
    Evidence,
    Figure,
    Ratio,
    Samples,
    evaluate,
    parts_by_id,
)

ONE: Final = "one_node"
THREE: Final = "three_nodes"
ONE_MEMBERS: Final = "one_node_members"
THREE_MEMBERS: Final = "three_nodes_members"
FAILOVER: Final = "failover"

MB_OF_1K: Final = 1024 / 1e6


def _mb_per_s(raw: Samples) -> float:
    return float(raw["records"]) / float(raw["seconds"]) * MB_OF_1K


def _rate(load: str, name: str) -> Figure:
    return lambda raw: float(raw[load][name]) / float(raw[load]["seconds"])


def _latency(load: str, kind: str, name: str) -> Figure:
    return lambda raw: float(raw[load][kind][name])


def _pairs(part: str, prefix: str, where: str) -> tuple[Ratio, ...]:
    def ratio(
        name: str,
        what: str,
        unit: str,
        op: str,
        bound: float,
        of: Figure,
        ours: tuple[str, ...] = (BMQ,),
        theirs: tuple[str, ...] = (KAFKA,),
        rival: str = "Apache Kafka",
    ) -> Ratio:
        return Ratio(f"{prefix}{name}", part, f"{what}{where}", unit, op, bound, of, ours, theirs, rival)

    def within(name: str, what: str, op: str, bound: float, of: Figure, side: str, ours: str, theirs: str) -> Ratio:
        """Two loads on one side."""
        ours_of, theirs_of = (side, *ours.split("/")), (side, *theirs.split("/"))
        return ratio(name, what, "MB/s", op, bound, of, ours_of, theirs_of, "the other load")

    overhead = "transactions of 100 ms, beside none"
    isolation = "a topic with aborted transactions under read_committed, to read_uncommitted"

    def read_mb_per_s(raw: Samples) -> float:
        return float(raw["mb_per_s"])

    levels = ("isolation/read_committed", "isolation/read_uncommitted")
    return (
        ratio("txn_produce_ratio", "produce 1 KiB in transactions of 100 ms", "MB/s", ">=", 1.2,
              lambda raw: _mb_per_s(raw["txn_produce"])),
        within("txn_overhead_ratio", f"produce 1 KiB in {overhead}", ">=", 0.9, _mb_per_s, BMQ, "txn_produce",
               "plain_produce"),
        ratio("end_txn_p99_ratio", "p99 of a commit at 100 transactions/s", "us", "<=", 0.6,
              _latency("end_txn", "commits", "p99_us")),
        ratio("small_txn_per_s_ratio", "transactions of one record, 16 producers", "/s", ">=", 1.0,
              _rate("small_txn", "transactions")),
        ratio("offset_commits_per_s_ratio", "offset commits of 50 groups to one shard", "/s", ">=", 1.0,
              _rate("offset_commits", "answers")),
        within("read_committed_ratio", isolation, ">=", 0.95, read_mb_per_s, BMQ, *levels),
        within("kafka_txn_overhead_ratio", f"Kafka: {overhead}", "", 0, _mb_per_s, KAFKA, "txn_produce", "plain_produce"),
        within("idempotent_overhead_ratio", "transactions of 100 ms, to an idempotent producer", "", 0, _mb_per_s, BMQ,
               "txn_produce", "idempotent_produce"),
        within("kafka_read_committed_ratio", f"Kafka: {isolation}", "", 0, read_mb_per_s, KAFKA, *levels),
        ratio("plain_produce_ratio", "produce 1 KiB without transactions", "MB/s", "", 0,
              lambda raw: _mb_per_s(raw["plain_produce"])),
        ratio("read_committed_rate_ratio", "read a topic with aborted transactions, read_committed", "MB/s", "", 0,
              lambda raw: raw["isolation"]["read_committed"]["mb_per_s"]),
        ratio("txn_p50_ratio", "p50 of a whole transaction of ten records at 100/s", "us", "", 0,
              _latency("end_txn", "whole", "p50_us")),
        ratio("txn_p99_ratio", "p99 of a whole transaction of ten records at 100/s", "us", "", 0,
              _latency("end_txn", "whole", "p99_us")),
        ratio("end_txn_p50_ratio", "p50 of a commit at 100 transactions/s", "us", "", 0,
              _latency("end_txn", "commits", "p50_us")),
        ratio("small_txn_p99_ratio", "p99 of a transaction of one record, 16 producers", "us", "", 0,
              _latency("small_txn", "whole", "p99_us")),
        ratio("offset_commit_p99_ratio", "p99 of an offset commit meanwhile", "us", "", 0,
              lambda raw: raw["offset_commits"]["latency_p99_us"]),
        ratio("txn_cpu_ratio", "CPU of all servers per GB produced in transactions", "s", "", 0, _txn_cpu_per_gb),
        ratio("offset_commit_cpu_ratio", "CPU of all servers per 1,000 offset commits", "s", "", 0, _commit_cpu),
        ratio("memory_ratio", "memory (PSS) of all servers behind these loads", "MiB", "", 0,
              lambda raw: raw["memory"]["pss_mib"]),
    )  # fmt: skip


def _txn_cpu_per_gb(raw: Samples) -> float:
    return float(raw["txn_produce"]["server_cpu_s"]) / (float(raw["txn_produce"]["records"]) * 1024 / 1e9)


def _commit_cpu(raw: Samples) -> float:
    return float(raw["offset_commits"]["server_cpu_s"]) / float(raw["offset_commits"]["answers"]) * 1_000


def _rebalanced(raw: Samples) -> float:
    """The median of all rounds' rebalances but each server's first, which warms it."""
    return statistics.median(float(one["settled_s"]) for each in raw["rounds"] for one in each["rebalances"][1:])


def _rebalanced_first(raw: Samples) -> float:
    return statistics.median(float(each["rebalances"][0]["settled_s"]) for each in raw["rounds"])


def _rebalanced_fixed(raw: Samples) -> float:
    return statistics.median(float(each["fixed_rebalance"]["settled_s"]) for each in raw["rounds"])


def _idle(*path: str) -> Figure:
    def figure(each: Samples) -> float:
        found = each["idle"]
        for name in path:
            found = found[name]
        return float(found)

    return lambda raw: statistics.median(figure(each) for each in raw["rounds"])


def _members(part: str, prefix: str, where: str) -> tuple[Absolute, ...]:
    return tuple(
        Absolute(f"{prefix}{name}", part, f"{what}{where}", unit, bound, of, op=op)
        for name, what, unit, op, bound, of in (
            ("rebalance_500_s", "500 members join one group, until it is settled", "s", "<=", 5, _rebalanced),
            ("members_10000_cpu_percent", "CPU of all servers, 10,000 members of 1,000 groups, of a core", "%", "<=", 20,
             _idle("cpu_percent")),
            ("rebalance_500_first_s", "500 members join one group, the server's first", "s", "", 0, _rebalanced_first),
            ("rebalance_500_fixed_s", "500 members join one group, a heartbeat every 3 s whatever they are told", "s", "", 0,
             _rebalanced_fixed),
            ("members_10000_memory_mib", "memory (PSS) of all servers with them", "MiB", "", 0, _idle("memory", "pss_mib")),
        )
    )  # fmt: skip


def _waits(name: str) -> Figure:
    return lambda raw: max(float(one[name]) for one in raw["rounds"])


THREE_WHERE: Final = "; three nodes"
ONE_WHERE: Final = "; one node"
RATIOS: Final = (*_pairs(THREE, "", THREE_WHERE), *_pairs(ONE, "one_", ONE_WHERE))
ABSOLUTES: Final = (
    *_members(THREE_MEMBERS, "", THREE_WHERE),
    *_members(ONE_MEMBERS, "one_", ONE_WHERE),
    Absolute(
        "coordinator_failover_gap_s", FAILOVER,
        "a transaction into all partitions waits, kill -9 of its coordinator's node, longest", "s", 1, _waits("wait_s"),
    ),
    Absolute(
        "coordinator_failover_elsewhere_gap_s", FAILOVER,
        "the same into other nodes' partitions alone, longest", "s", 0, _waits("elsewhere_wait_s"), op="",
    ),
)  # fmt: skip
PART_OF: Final = parts_by_id(RATIOS, ABSOLUTES)


def judge(evidence: Evidence) -> list[Criterion]:
    return evaluate(evidence, RATIOS, ABSOLUTES)
