"""Spark's pipeline on bmq over HDFS beside Spark's Kafka connector on the same bmq and on Apache Kafka, and its jobs under kill -9.

Both clusters have three nodes and three replicas of the same records and are up together, idle but for the one that is read;
so are the Sparks of the contenders, one each, with two tasks at a time. Each round is every scan by every contender, in
changing order; the criterion is the median of the rounds' ratios. Writes bench/results/spark.json (machine, versions, every
sample and the criteria) and prints a table. Exit code 0 says that it ran; whether a criterion holds is in the file and in the
table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from bench.cluster.run import cluster_versions, run_parts
from bench.cluster.sides import COMBINED, Side
from bench.cluster.stage import Stage
from bench.criteria import BMQ
from bench.findings import Findings, say
from bench.loads.client import Client
from bench.runner import Bench, main
from bench.spark import criteria, tuning
from bench.spark.campaigns import CAMPAIGNS, perform
from bench.spark.criteria import (
    CLOSED,
    CODECS,
    CONNECTOR,
    CONNECTOR_ON_KAFKA,
    DECODE,
    EXECUTOR,
    FULL,
    SCANS_1K,
    SCANS_100B,
    SOURCE,
)
from bench.spark.decode import decode
from bench.spark.plan import PARTS, Plan, plan_of
from bench.spark.scanner import Scanner
from bench.spark.scans import (
    CONTENDERS,
    Grounds,
    all_scans,
    close_segments,
    closed_scan,
    executor_memory,
    known_of,
    planned,
    scan,
    share_of_files,
)
from bench.spark.topics import Topic, drop, fill, fill_compressed
from testing.processes import REPOSITORY, kill_everything

DATA: Final = REPOSITORY / ".cache" / "bench-spark"
RECORD_BYTES: Final = {SCANS_100B: 100, SCANS_1K: 1024}
SOURCES: Final = {SOURCE: "bmq", CONNECTOR: "kafka", CONNECTOR_ON_KAFKA: "kafka"}


def topic_of(part: str, plan: Plan) -> Topic:
    records = plan.records_100b if part == SCANS_100B else plan.records_1k
    return Topic(part, plan.partitions, records, RECORD_BYTES[part], plan.segment_bytes)


def in_turn(contenders: tuple[str, ...], number: int) -> list[str]:
    """The contenders, with a different one first in each round."""
    first = number % len(contenders)
    return [*contenders[first:], *contenders[:first]]


# -- On both clusters --------------------------------------------------------------------------------------------------


def read_by_all(stage: Stage, plan: Plan, findings: Findings) -> None:
    """Scans of both record sizes, of closed segments, memory, and decoding: everything that needs no fault."""
    client = Client(DATA / "client")
    with ExitStack() as stack:
        bmq = stack.enter_context(stage.bmq(COMBINED))
        kafka = stack.enter_context(stage.kafka(is_combined=True))
        bootstraps = {SOURCE: bmq.bootstrap, CONNECTOR: bmq.bootstrap, CONNECTOR_ON_KAFKA: kafka.bootstrap}
        topics = [topic_of(part, plan) for part in RECORD_BYTES if needs(part, plan)]
        remembered = findings.rounds(EXECUTOR, BMQ, plan.rounds * len(topics)) if EXECUTOR in plan.parts else None
        with sparks(bootstraps) as scanners:
            grounds = Grounds(stage, bmq, scanners)
            for topic in topics:
                for side in (bmq, kafka):
                    filled(side, topic, client)
                if topic.name in plan.parts:
                    put_in_turn(grounds, topic, plan.rounds, findings)
                elif EXECUTOR in plan.parts or CLOSED in plan.parts:
                    for name in CONTENDERS:
                        scan(grounds, name, topic)  # the rounds would have warmed them up
                for _ in range(plan.rounds if remembered else 0):
                    with findings.attempt([EXECUTOR], topic.name):
                        assert remembered is not None
                        remembered(executor_memory(grounds, topic))
                if topic.name == SCANS_100B and CLOSED in plan.parts:
                    with findings.attempt([CLOSED], BMQ):
                        read_closed(grounds, topic, plan, findings)
                if topic is not topics[-1]:
                    for side in (bmq, kafka):
                        drop(side, topic)
        if DECODE in plan.parts:
            decoded(bmq, topic_of(SCANS_1K, plan), plan, findings)
    stage.down()


def needs(part: str, plan: Plan) -> bool:
    """Whether this part, or one that reads its topic, was requested."""
    others = {SCANS_100B: (CLOSED, EXECUTOR), SCANS_1K: (EXECUTOR, DECODE)}[part]
    return any(one in plan.parts for one in (part, *others))


def filled(side: Side, topic: Topic, client: Client) -> None:
    seconds = fill(side, topic, client)
    say(f"  {topic.records:,} records of {topic.record_bytes} B in {side.name} after {seconds} s")


@contextmanager
def sparks(bootstraps: dict[str, str]) -> Iterator[dict[str, Scanner]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(Scanner(name, SOURCES[name], bootstraps[name], DATA)) for name in CONTENDERS}


def put_in_turn(grounds: Grounds, topic: Topic, rounds: int, findings: Findings) -> None:
    """The rounds for one record size, after a warm-up round."""
    pairs = findings.pairs(topic.name, rounds)
    bootstrap = grounds.bmq.bootstrap
    with findings.attempt([topic.name], "topic"):
        known = known_of(bootstrap, topic)
        findings.parts[topic.name]["files_share"] = share_of_files(planned(bootstrap, topic))
        for number in range(rounds + 1):
            where = f"round {number} of {rounds}" if number else "warm-up"
            pair: dict[str, Any] = {"order": in_turn(CONTENDERS, number)}
            if number:
                pairs.append(pair)
            for name in pair["order"]:
                with findings.attempt([topic.name], f"{where}: {name}"):
                    pair[name] = all_scans(grounds, topic, known, name)
                    took = ", ".join(f"{what} {one['seconds']} s" for what, one in pair[name].items())
                    say(f"  {topic.name}, {where}: {name}: {took}")


def read_closed(grounds: Grounds, topic: Topic, plan: Plan, findings: Findings) -> None:
    """Scans with every segment closed. The connector is measured too: no node has these records in memory."""
    close_segments(grounds.bmq, topic)
    pairs = findings.pairs(CLOSED, plan.rounds)
    for number in range(plan.rounds):
        pair: dict[str, Any] = closed_scan(grounds, topic)
        for name in in_turn((CONNECTOR, CONNECTOR_ON_KAFKA), number) if number == 0 else ():
            pair[name] = {FULL: scan(grounds, name, topic)}
        pairs.append(pair)
        say(
            f"  {CLOSED}, round {number + 1} of {plan.rounds}: {pair['brokers']['bytes']} of {pair['all']['bytes']} bytes"
        )


def decoded(bmq: Any, plain: Topic, plan: Plan, findings: Findings) -> None:
    pairs = findings.pairs(DECODE, plan.rounds)
    pairs.extend({} for _ in range(plan.rounds))
    for codec in CODECS:
        with findings.attempt([DECODE], codec):
            topic = plain
            if codec != "none":
                topic = Topic(f"{DECODE}_{codec}", plan.partitions, plan.codec_records, 1024, plan.segment_bytes)
                fill_compressed(bmq, topic, codec)
            for pair, found in zip(pairs, decode(bmq, topic, plan.rounds), strict=True):
                pair[codec] = found
            say(f"  {codec}: {pairs[-1][codec]}")


# -- Under faults ------------------------------------------------------------------------------------------------------


def under_faults(part: str, stage: Stage, plan: Plan, findings: Findings) -> None:
    """Run a campaign on its own clusters."""
    stage.down()
    samples = findings.samples(part, BMQ)
    samples |= {"wanted": 1, "rounds": []}
    try:
        with findings.attempt([part], BMQ):
            samples["rounds"].append(perform(part, plan, DATA / part))
    finally:
        kill_everything()


RUNS: Final[dict[str, Callable[[Stage, Plan, Findings], None]]] = {
    **dict.fromkeys((SCANS_100B, SCANS_1K, CLOSED, EXECUTOR, DECODE), read_by_all),
    **{part: partial(under_faults, part) for part in CAMPAIGNS},
}


def measure(plan: Plan, findings: Findings) -> dict[str, float]:
    """Run all parts of the plan; the seconds each took."""

    def limit_s(part: str) -> float:
        return plan.scans_limit_s if RUNS[part] is read_by_all else plan.limit_s

    return run_parts(DATA, plan.parts, RUNS, limit_s, plan, findings)


def versions() -> dict[str, str]:
    return {**cluster_versions(), "spark": version("pyspark"), "pyarrow": version("pyarrow")}


BENCH: Final = Bench(
    name="spark",
    doc=__doc__,
    parts=PARTS,
    names=criteria.PART_OF,
    plan_of=plan_of,
    measure=measure,
    evaluate=criteria.judge,
    definitions={},
    settings=tuning.SETTINGS,
    versions=versions,
    data=DATA,
    sides=(BMQ,),
)

if __name__ == "__main__":
    main(BENCH)
