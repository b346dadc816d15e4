"""A topic mirrored into another cluster: is each record there once, whatever is killed or away?

python -m bench.spark.mirror_campaign [--smoke] [--seed S] [--job-kills N] [--broker-kills N] [--away-s S]

The source has three nodes on an HDFS of three DataNodes; the target is one `bmq standalone` over a local directory. A
producer numbers records all along; the job is `bmq spark mirror`. The job, nodes of the source and the target are killed by
kill -9 in an order that the seed gives, each once the mirror has copied something since it was started and since the last
kill; in between the target is away for a minute, stopped or killed. At the end `mirror --once` copies what is left, and what
librdkafka's consumer of committed records finds in the target is compared with what was sent, and with the source's order.

`mirror_lost_or_doubled`: records that were sent and are missing, and those that are there beyond the first.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench.cluster.faults import make_topic
from bench.cluster.sides import COMBINED, BmqSide
from bench.cluster.stage import Stage
from bench.findings import say
from bench.spark.campaign_command import perform_command
from bench.spark.campaign_faults import CampaignStuck, Job, Nodes, NodesAndTarget, Victim, perform, plan_faults
from bench.spark.campaign_producer import Report, RunningProducer
from bench.spark.table_campaign_reader import count_ids
from testing.processes import REPOSITORY, ManagedProcess
from testing.servers import BmqServer, bmq_command
from testing.topic_contents import values_of

DATA: Final = REPOSITORY / ".cache" / "bench-spark-mirror"
TOPIC: Final = "events"
PREFIX: Final = "mirrored."
PARTITIONS: Final = 3
SEGMENT_BYTES: Final = 1024 * 1024
"""Segments are closed now and then, so that the mirror also reads from HDFS."""
SPARK: Final = (
    *("--master", "local[2]", "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
    *("--conf", "spark.sql.shuffle.partitions=2"),
)
ENVIRONMENT: Final = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
FAILED: Final = frozenset({1, 2})
"""Exit codes of the job after which a restart is pointless."""
GROWTH: Final = 100
"""Offsets by which the target has to grow: more than the markers of a killed mirror's open transactions."""
LOOK_EVERY_S: Final = 0.2
LOOK_WAIT_S: Final = 2.0
STOP_WAIT_S: Final = 60.0
LAST_WAIT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Plan:
    """`broker_kills`: half of these, rounded down, hit the target, the others nodes of the source. `away_s`: how long
    the target is away once; 0: never.
    """

    directory: Path = DATA
    seed: int = 0
    records_s: float = 2_000
    job_kills: int = 10
    broker_kills: int = 5
    away_s: float = 60.0
    record_bytes: int = 200

    @property
    def counts(self) -> dict[Victim, int]:
        of_target = self.broker_kills // 2
        return {
            Victim.JOB: self.job_kills,
            Victim.BROKER: self.broker_kills - of_target,
            Victim.TARGET: of_target,
            Victim.TARGET_AWAY: 1 if self.away_s else 0,
        }


SMOKE: Final = Plan(records_s=500, job_kills=1, broker_kills=2, away_s=5.0)


class TargetEnds:
    """Polls how far the target has been written. To be closed."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks", "log_level": 0})
        self._topic = topic
        self._asked_s = 0.0
        self._known = -1

    def total(self) -> int:
        """The sum over all partitions, from the last answer; -1 before the first."""
        if time.monotonic() - self._asked_s >= LOOK_EVERY_S:
            with suppress(KafkaException):
                places = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
                ends = [self._consumer.get_watermark_offsets(place, timeout=LOOK_WAIT_S) for place in places]
                if all(end is not None and end[1] >= 0 for end in ends):
                    self._known = sum(end[1] for end in ends)
            self._asked_s = time.monotonic()
        return self._known

    def close(self) -> None:
        self._consumer.close()


def ids_of(values: Mapping[int, Sequence[bytes]]) -> dict[int, list[int]]:
    """Ids by partition, in order. Pure."""
    return {partition: [int(json.loads(value)["id"]) for value in some] for partition, some in values.items()}


def compare(source: Mapping[int, Sequence[int]], target: Mapping[int, Sequence[int]], report: Report) -> dict[str, Any]:
    """Compare ids by partition, as readers of committed records see them. Pure."""
    found = count_ids(np.array([each for some in target.values() for each in some], dtype=np.int64), report.sent)
    of_source = count_ids(np.array([each for some in source.values() for each in some], dtype=np.int64), report.sent)
    return {
        "records_sent": report.sent,
        "producer_failed": len(report.failed) + report.unanswered,
        "source_records": of_source.rows,
        "source_lost_or_doubled": of_source.lost_or_doubled,
        "target_records": found.rows,
        "records_lost": found.lost,
        "records_doubled": found.doubled,
        "records_unknown": found.unknown,
        "mirror_lost_or_doubled": found.lost_or_doubled if report.is_whole else None,
        "partitions_out_of_order": sum(list(source[number]) != list(target.get(number, ())) for number in source),
    }


def command_of(source: str, target: str, *more: str) -> list[str]:
    return [
        *(bmq_command(), "spark", "mirror", TOPIC, "--bootstrap", source, "--target", target, "--prefix", PREFIX),
        *("--name", "campaign", "--groups-every", "5", *more, *SPARK),
    ]


def under_kills(side: BmqSide, target: BmqServer, plan: Plan) -> dict[str, Any]:
    """Raises CampaignStuck, ProcessFailed, AssertionError."""
    make_topic(side, PARTITIONS, topic=TOPIC, segment_bytes=str(SEGMENT_BYTES))
    directory = plan.directory / "mirror"
    producer = RunningProducer(
        directory / "producer", side.bootstrap, TOPIC, PARTITIONS, plan.records_s, plan.record_bytes
    )
    ends = TargetEnds(target.bootstrap, f"{PREFIX}{TOPIC}")
    job = Job(
        "mirror",
        command_of(side.bootstrap, target.bootstrap),
        directory / "job.log",
        ENVIRONMENT,
        final_codes=FAILED,
        progress=lambda _: ends.total(),
        step=GROWTH,
    )
    servers = NodesAndTarget(Nodes(side.cluster, TOPIC, PARTITIONS), target)
    try:
        producer.start()
        job.start()
        done = perform(plan_faults(plan.seed, plan.counts, away_s=plan.away_s), job, servers)
        report = producer.finish()
        exit_code = job.process.stop(STOP_WAIT_S)
        last = finish(directory, side, target)
    finally:
        job.close()
        producer.close()
        ends.close()
    source, copied = (
        ids_of(values_of(bootstrap, topic, PARTITIONS))
        for bootstrap, topic in ((side.bootstrap, TOPIC), (target.bootstrap, f"{PREFIX}{TOPIC}"))
    )
    return {
        **compare(source, copied, report),
        "job_kills": job.kills,
        "broker_kills": sum(each["victim"] in (Victim.BROKER, Victim.TARGET) for each in done),
        "away": [each for each in done if each["victim"] == Victim.TARGET_AWAY],
        "kills": done,
        "job_ended_by_itself": job.ended,
        "job_exit_code": exit_code,
        "last_offsets": last,
    }


def finish(directory: Path, side: BmqSide, target: BmqServer) -> int:
    """Copy the rest; returns the number of offsets. Raises ProcessFailed, CampaignStuck."""
    last = ManagedProcess(
        "mirror --once",
        command_of(side.bootstrap, target.bootstrap, "--once", "--json"),
        directory / "last.log",
        ENVIRONMENT,
    )
    last.start()
    try:
        code = last.wait(LAST_WAIT_S)
        if code != 0:
            raise CampaignStuck(f"mirror --once ended with {code}{last}")
        said = last.log_of_this_run()
        return int(json.loads(said[said.index("{") :])["offsets"])
    finally:
        if last.is_running:
            last.kill()


def run(plan: Plan) -> dict[str, Any]:
    """Raises CampaignStuck, ProcessFailed, AssertionError."""
    say(f"mirror campaign with seed {plan.seed}")
    began = time.monotonic()
    stage = Stage(plan.directory)
    target = BmqServer(plan.directory / "target")
    try:
        with stage.bmq(COMBINED) as side:
            target.start()
            set_up_s = round(time.monotonic() - began, 1)
            found = under_kills(side, target, plan)
    finally:
        target.close()
        stage.down()
    return {
        "seed": plan.seed,
        "plan": {**asdict(plan), "directory": str(plan.directory)},
        "target": "bmq standalone over a local directory",
        "set_up_s": set_up_s,
        "seconds": round(time.monotonic() - began, 1),
        **found,
    }


def plan_of(arguments: Sequence[str] | None = None) -> tuple[Plan, Path | None]:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--smoke", action="store_true", help="a few kills: whether it runs at all")
    options.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options.add_argument("--job-kills", type=int)
    options.add_argument("--broker-kills", type=int)
    options.add_argument("--away-s", type=float, help="0: the target is not taken away")
    options.add_argument("--directory", type=Path, default=DATA)
    options.add_argument("--results", type=Path)
    given = options.parse_args(arguments)
    plan = replace(SMOKE if given.smoke else Plan(), seed=given.seed, directory=given.directory)
    chosen = {name: getattr(given, name) for name in ("job_kills", "broker_kills", "away_s")}
    return replace(plan, **{name: value for name, value in chosen.items() if value is not None}), given.results


if __name__ == "__main__":
    sys.exit(perform_command(run, *plan_of()))
