"""A table of a topic: is each record in it once, whatever is killed, and how far is it behind?

python -m bench.spark.table_campaign [--smoke] [--seed S] [--job-kills N] [--broker-kills N] [--lag-s S] …

Three nodes on an HDFS of three DataNodes, which also keeps the table and its checkpoint. A producer numbers records; the job
is `python -m bmq.spark.tables` with the stock connector. First the lag, undisturbed; then another topic and table, of which
job and nodes are killed by kill -9 in an order that the seed gives, each once the job has written a batch since it was
started and since the last kill. What is in the table is read by PyIceberg and pyarrow.

`table_lag_s`: how old the oldest record is that is not in the table, looked at from outside at short intervals.
`table_rows_lost_or_doubled`: records that were sent and have no row, and rows beyond the first of a record.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from bench.cluster.faults import make_topic
from bench.cluster.sides import COMBINED, BmqSide
from bench.cluster.stage import Stage
from bench.findings import say
from bench.spark.campaign_command import perform_command
from bench.spark.campaign_faults import CampaignStuck, Job, Nodes, Victim, perform, plan_faults, wait_for_progress
from bench.spark.campaign_producer import Report, RunningProducer, Tick, read_ticks, sent_at_ms
from bench.spark.table_campaign_reader import TableReader, count_ids
from testing.processes import REPOSITORY, ProcessFailed, eventually
from testing.table_topics import SUBMIT_ARGUMENTS

DATA: Final = REPOSITORY / ".cache" / "bench-spark-table"
TABLE: Final = "events"
PARTITIONS: Final = 3
REFUSED: Final = 2
"""Exit code of the job: something has to be changed first."""
ENVIRONMENT: Final = {
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "TZ": "UTC",
}
STEADY_COMMITS: Final = 2
"""Commits to wait for before the lag is watched: the first has the records that came while Spark started."""
CATCH_UP_WAIT_S: Final = 180.0
STOP_WAIT_S: Final = 60.0
MERGE_EVERY: Final = 5
"""Commits between two merges of small files in the kill phase: merges are killed too."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`lag_s`: how long the lag is watched, every `look_s`, at `lag_records_s` and the job's `lag_trigger_s`. The kill
    phase has `records_s`, and a batch every `trigger_s`. 0 kills or 0 s skip a phase.
    """

    directory: Path = DATA
    seed: int = 0
    lag_records_s: float = 10_000
    lag_trigger_s: float = 10.0
    lag_s: float = 125.0
    look_s: float = 0.5
    records_s: float = 2_000
    trigger_s: float = 1.0
    job_kills: int = 10
    broker_kills: int = 5
    record_bytes: int = 200


SMOKE: Final = Plan(lag_records_s=1_000, lag_trigger_s=2.0, lag_s=10.0, records_s=500, job_kills=2, broker_kills=1)


@dataclass(frozen=True, slots=True)
class Look:
    """`at_ms`: when the look began. `first_missing`: the lowest id that was not in the table."""

    at_ms: int
    first_missing: int


def lag_s(look: Look, ticks: Sequence[Tick]) -> float:
    """Age of the oldest record that was not in the table; 0 when none was missing. Pure."""
    return max(0.0, (look.at_ms - sent_at_ms(ticks, look.first_missing)) / 1_000)


def definition(topic: str) -> dict[str, Any]:
    return {
        "name": TABLE,
        "topic": topic,
        "format": "json",
        "fields": [
            {"name": "id", "type": "long", "required": True},
            {"name": "at", "type": "timestamp", "unit": "ms"},
            {"name": "customer", "type": "string", "path": "customer.name"},
            {"name": "text", "type": "string"},
        ],
        "partitioning": [{"by": "day", "field": "at"}],
    }


def batches(job: Job) -> list[dict[str, Any]]:
    """The job's reports since its last start, without replayed or empty batches."""
    lines = job.process.log_of_this_run().splitlines()
    said = [json.loads(line) for line in lines if line.startswith('{"table":') and line.endswith("}")]
    return [batch for batch in said if batch["rows"] and not batch["is_replay"]]


class TableCase:
    """One topic with its producer, job and table, in their own directories under `name`."""

    def __init__(self, stage: Stage, side: BmqSide, plan: Plan, name: str, records_s: float, trigger_s: float) -> None:
        self.topic = f"table-{name}"
        make_topic(side, PARTITIONS, topic=self.topic)
        directory = plan.directory / name
        directory.mkdir(parents=True)
        form = directory / "definition.json"
        form.write_text(json.dumps(definition(self.topic)))
        warehouse = f"{stage.hdfs.url}/tables-{name}"
        self.producer = RunningProducer(
            directory / "producer", side.bootstrap, self.topic, PARTITIONS, records_s, plan.record_bytes
        )
        self.command = [
            *(sys.executable, "-m", "bmq.spark.tables", "--definition", str(form), "--bootstrap", side.bootstrap),
            *("--warehouse", warehouse, "--checkpoint", f"{warehouse}-checkpoint"),
        ]
        merging = () if trigger_s >= 10 else ("--merge-every", str(MERGE_EVERY))
        self.job = Job(
            f"table job {name}",
            [*self.command, "--trigger-s", f"{trigger_s:g}", *merging],
            directory / "job.log",
            ENVIRONMENT,
            final_codes=frozenset({REFUSED}),
            progress=lambda job: len(batches(job)),
        )
        self.reader = TableReader(f"{warehouse}/tables/{TABLE}")

    def close(self) -> None:
        self.job.close()
        self.producer.close()

    def finish(self) -> tuple[Report, dict[str, Any]]:
        """Stop the producer, let the table catch up, stop the job, and count. Raises CampaignStuck."""
        report = self.producer.finish()
        began = time.monotonic()

        def has_all() -> bool:
            self.job.supervise()
            done = batches(self.job)
            return bool(done) and not done[-1]["lag"] and sum(done[-1]["end_offsets"].values()) >= report.acknowledged

        try:
            eventually(has_all, CATCH_UP_WAIT_S, "the table has all there is", interval_s=0.2)
            is_caught_up = True
        except AssertionError:
            is_caught_up = False
        caught_up_s = round(time.monotonic() - began, 1)
        try:
            exit_code = self.job.process.stop(STOP_WAIT_S)
        except ProcessFailed as error:
            raise CampaignStuck(str(error)) from error
        count = count_ids(self.reader.ids(), report.sent)
        return report, {
            "records_sent": report.sent,
            "records_acknowledged": report.acknowledged,
            "producer_failed": len(report.failed) + report.unanswered,
            "rows": count.rows,
            "rows_lost": count.lost,
            "rows_doubled": count.doubled,
            "rows_unknown": count.unknown,
            "table_rows_lost_or_doubled": count.lost_or_doubled if report.is_whole else None,
            "is_caught_up": is_caught_up,
            "caught_up_s": caught_up_s,
            "job_exit_code": exit_code,
            "job_ended_by_itself": self.job.ended,
        }


def measure_lag(stage: Stage, side: BmqSide, plan: Plan) -> dict[str, Any]:
    """The lag without faults. Raises CampaignStuck."""
    case = TableCase(stage, side, plan, "lag", plan.lag_records_s, plan.lag_trigger_s)
    nodes = Nodes(side.cluster, case.topic, PARTITIONS)
    try:
        case.job.start()
        case.producer.start()
        for _ in range(STEADY_COMMITS):
            wait_for_progress(case.job, nodes)
            case.job.mark()
        looks = watch(case, nodes, plan)
        done = batches(case.job)
        _, found = case.finish()
    finally:
        case.close()
    ticks = read_ticks(case.producer.directory)
    samples = [round(lag_s(look, ticks), 3) for look in looks]
    rate = (ticks[-1].first_id - ticks[0].first_id) / (ticks[-1].at_ms - ticks[0].at_ms) * 1_000
    return {
        **found,
        "records_s": round(rate, 1),
        "trigger_s": plan.lag_trigger_s,
        "looked_s": round((looks[-1].at_ms - looks[0].at_ms) / 1_000, 1),
        "table_lag_s": max(samples),
        "table_lag_median_s": round(statistics.median(samples), 3),
        "longest_between_looks_s": max(
            round((later.at_ms - earlier.at_ms) / 1_000, 3) for earlier, later in itertools.pairwise(looks)
        ),
        "lag_samples_s": samples,
        "batches": [{"rows": each["rows"], "duration_ms": each["duration_ms"]} for each in done],
    }


def watch(case: TableCase, nodes: Nodes, plan: Plan) -> list[Look]:
    """Raises CampaignStuck."""
    looks: list[Look] = []
    began = time.monotonic()
    while (now := time.monotonic()) < began + plan.lag_s:
        at_ms = time.time_ns() // 1_000_000
        looks.append(Look(at_ms, case.reader.first_missing()))
        nodes.tick()
        case.job.supervise()
        time.sleep(max(0.0, now + plan.look_s - time.monotonic()))
    return looks


def count_under_kills(stage: Stage, side: BmqSide, plan: Plan) -> dict[str, Any]:
    """Raises CampaignStuck."""
    case = TableCase(stage, side, plan, "kills", plan.records_s, plan.trigger_s)
    nodes = Nodes(side.cluster, case.topic, PARTITIONS)
    faults = plan_faults(plan.seed, {Victim.JOB: plan.job_kills, Victim.BROKER: plan.broker_kills})
    try:
        case.producer.start()
        case.job.start()
        done = perform(faults, case.job, nodes)
        _, found = case.finish()
    finally:
        case.close()
    return {
        **found,
        "job_kills": case.job.kills,
        "broker_kills": sum(each["victim"] == Victim.BROKER for each in done),
        "kills": done,
    }


def run(plan: Plan) -> dict[str, Any]:
    """`lag` and `kills`, each with every sample, and the two figures. Raises CampaignStuck, AssertionError."""
    say(f"table campaign with seed {plan.seed}")
    found: dict[str, Any] = {"seed": plan.seed, "plan": {**asdict(plan), "directory": str(plan.directory)}}
    began = time.monotonic()
    stage = Stage(plan.directory)
    try:
        with stage.bmq(COMBINED) as side:
            found["set_up_s"] = round(time.monotonic() - began, 1)
            if plan.lag_s:
                say(f"  lag at {plan.lag_records_s:g} records/s, trigger {plan.lag_trigger_s:g} s")
                found["lag"] = measure_lag(stage, side, plan)
                for name in ("table_lag_s", "table_lag_median_s"):
                    found[name] = found["lag"][name]
            if plan.job_kills or plan.broker_kills:
                say(f"  {plan.job_kills} kills of the job, {plan.broker_kills} of nodes")
                found["kills"] = count_under_kills(stage, side, plan)
                found["table_rows_lost_or_doubled"] = found["kills"]["table_rows_lost_or_doubled"]
    finally:
        stage.down()
    found["seconds"] = round(time.monotonic() - began, 1)
    return found


def plan_of(arguments: Sequence[str] | None = None) -> tuple[Plan, Path | None]:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--smoke", action="store_true", help="a few kills and seconds: whether it runs at all")
    options.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options.add_argument("--job-kills", type=int)
    options.add_argument("--broker-kills", type=int)
    options.add_argument("--lag-s", type=float, help="0: leave the lag out")
    options.add_argument("--lag-records-s", type=float)
    options.add_argument("--directory", type=Path, default=DATA)
    options.add_argument("--results", type=Path)
    given = options.parse_args(arguments)
    plan = replace(SMOKE if given.smoke else Plan(), seed=given.seed, directory=given.directory)
    chosen = {name: getattr(given, name) for name in ("job_kills", "broker_kills", "lag_s", "lag_records_s")}
    return replace(plan, **{name: value for name, value in chosen.items() if value is not None}), given.results


if __name__ == "__main__":
    sys.exit(perform_command(run, *plan_of()))
