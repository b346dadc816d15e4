"""Each Spark job killed by kill -9 in the middle and started again: is the result the one of a job that nobody disturbed?

python -m bench.spark.resume_campaign [--smoke] [--seed S] [--records N]

Three nodes on an HDFS of three DataNodes have a topic of numbered records, among them those of aborted transactions; copies
go to one `bmq standalone` over a local directory. backfill, mirror, verify, stats, find and the table job each run once
undisturbed, and once more with a name, state or checkpoint of their own: killed somewhere in the middle that the seed gives,
JVM and all, and run again. Compared are: the reports and findings as JSON; of each copy every record (key, value, headers,
timestamp) by partition and in order, as librdkafka's consumer of committed records sees it; of the tables every row, as
pyarrow reads it.

`jobs_resumed_differently`: jobs of which the two differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from bench.cluster.faults import make_topic
from bench.cluster.sides import COMBINED, BmqSide
from bench.cluster.stage import Stage
from bench.findings import say
from bench.spark.campaign_command import perform_command
from bench.spark.campaign_faults import CampaignStuck, Job
from bench.spark.mirror_campaign import ENVIRONMENT, SPARK, TargetEnds
from bench.spark.table_campaign import ENVIRONMENT as TABLE_ENVIRONMENT
from bench.spark.table_campaign import TABLE, batches, definition
from bench.spark.table_campaign_reader import TableReader
from testing.processes import REPOSITORY, ManagedProcess, dying_with_us, eventually
from testing.servers import BmqServer, bmq_command

DATA: Final = REPOSITORY / ".cache" / "bench-spark-resume"
TOPIC: Final = "events"
PARTITIONS: Final = 3
SEGMENT_BYTES: Final = 1024 * 1024
FIRST_MS: Final = 1_700_006_400_000
HOURS: Final = 5
HOUR_MS: Final = 3_600_000
KEYS: Final = 1_000
USERS: Final = 77
ABORTED: Final = 500
"""Records of an aborted transaction in the middle of each partition."""
STEPS: Final = 8
"""Steps of each job except verify, whose steps are of segments."""
KILLED_IN: Final = (0.2, 0.7)
"""Share of the work that is done when a job is killed."""
AFTER_S: Final = (0.0, 1.0)
"""Delay between that point and the kill."""
FILL_WAIT_S: Final = 120.0
MIDDLE_WAIT_S: Final = 600.0
RUN_WAIT_S: Final = 600.0
READ_WAIT_S: Final = 60.0
LOOK_S: Final = 1.0
BACKFILL, MIRROR, VERIFY, STATS, FIND, TABLE_JOB = "backfill", "mirror", "verify", "stats", "find", "table"
COMMANDS: Final = (BACKFILL, MIRROR, VERIFY, STATS, FIND)
JOBS: Final = (*COMMANDS, TABLE_JOB)
CALM, KILLED = "calm", "killed"


@dataclass(frozen=True, slots=True)
class Plan:
    """`records`: in the topic, each a bit larger than `fill_bytes`; enough for verify to have several steps."""

    directory: Path = DATA
    seed: int = 0
    records: int = 90_000
    fill_bytes: int = 1_000
    jobs: tuple[str, ...] = JOBS


SMOKE: Final = Plan(records=6_000, fill_bytes=8_000)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one way to run a job. `exit_code`: of the last process. `result`: to be compared. `said`:
    stderr."""

    exit_code: int
    result: Any
    said: str = ""


def entry(job: str, calm: Outcome, resumed: Outcome, killed_at: Mapping[str, Any]) -> dict[str, Any]:
    """Pure."""
    is_same = (calm.exit_code, calm.result) == (resumed.exit_code, resumed.result) and calm.exit_code == 0
    return {
        "job": job,
        "is_same": is_same,
        "exit_codes": [calm.exit_code, resumed.exit_code],
        "killed_at": dict(killed_at),
        "tracebacks": sum("Traceback (most recent call last)" in each.said for each in (calm, resumed)),
        "results": [_digest(calm.result), _digest(resumed.result)],
        **({} if is_same else {"said": [calm.said[-2_000:], resumed.said[-2_000:]]}),
    }


def _digest(result: Any) -> str:
    return hashlib.sha256(json.dumps(result, sort_keys=True, default=str).encode()).hexdigest()[:16]


# -- The topic ---------------------------------------------------------------------------------------------------------


def fill(bootstrap: str, plan: Plan) -> None:
    """Fill PARTITIONS equally, each with an aborted transaction between its two halves. Raises KafkaException."""
    filler = Random(plan.seed)
    for partition in range(PARTITIONS):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"filler-{partition}",
                "compression.type": ("none", "lz4", "zstd")[partition % 3],
                "batch.num.messages": 500,
                "log_level": 0,
            }
        )
        producer.init_transactions(FILL_WAIT_S)
        numbers = range(partition, plan.records, PARTITIONS)
        middle = len(numbers) // 2
        for part, is_kept in ((numbers[:middle], True), (numbers[:ABORTED], False), (numbers[middle:], True)):
            producer.begin_transaction()
            for number in part:
                value = {
                    "id": number,
                    "user": {"id": number % USERS},
                    "text": filler.randbytes(plan.fill_bytes // 2).hex(),
                }
                producer.produce(
                    TOPIC,
                    json.dumps(value if is_kept else {**value, "id": -1 - number}).encode(),
                    b"key-%d" % (number % KEYS),
                    partition,
                    timestamp=FIRST_MS + number * HOURS * HOUR_MS // plan.records,
                    headers=[("trace", b"%d" % number)] if number % 10 == 0 else [],
                )
                producer.poll(0)
            if producer.flush(FILL_WAIT_S):
                raise CampaignStuck(f"{TOPIC}-{partition} cannot be filled")
            if is_kept:
                producer.commit_transaction(FILL_WAIT_S)
            else:
                producer.abort_transaction(FILL_WAIT_S)


def contents(bootstrap: str, topic: str) -> list[list[Any]]:
    """For each partition the number of committed records, and the digest of all in order. Raises CampaignStuck."""
    digests = [hashlib.sha256() for _ in range(PARTITIONS)]
    counts = [0] * PARTITIONS
    config = {"bootstrap.servers": bootstrap, "group.id": f"{topic}-reader", "isolation.level": "read_committed"}
    with closing(Consumer({**config, "enable.partition.eof": True, "enable.auto.commit": False})) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        ended: set[int] = set()
        due_s = time.monotonic() + READ_WAIT_S
        while len(ended) < PARTITIONS:
            # It waits for all 1,000 of them, also where a topic has ended.
            messages = consumer.consume(1_000, LOOK_S)
            if messages:
                due_s = time.monotonic() + READ_WAIT_S
            elif time.monotonic() > due_s:
                raise CampaignStuck(f"{topic} of {bootstrap} is not read to its end")
            for message in messages:
                partition, error = message.partition(), message.error()
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    ended.add(partition)
                    continue
                counts[partition] += 1
                record = (message.key(), message.value(), message.headers(), message.timestamp())
                digests[partition].update(repr(record).encode())
    return [[count, digest.hexdigest()] for count, digest in zip(counts, digests, strict=True)]


# -- Commands of `bmq spark` -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class World:
    """The jobs' environment. `random` determines where they are killed."""

    plan: Plan
    source: str
    target: str
    random: Random

    def arguments(self, job: str, way: str) -> list[str]:
        """Arguments of `bmq spark`. Each way has its own names and directories."""
        here, step = ["--bootstrap", self.source], ["--step", str(max(1, self.plan.records // STEPS))]
        state = ["--state", str(self.plan.directory / f"state-{job}-{way}")]
        match job:
            case "backfill":
                command = [TOPIC, self.copy(job, way), "--target", self.target, *step]
            case "mirror":
                prefix = self.copy(job, way).removesuffix(TOPIC)
                command = [TOPIC, "--target", self.target, "--prefix", prefix, "--name", way, "--once", *step]
            case "verify":
                command = [TOPIC, *state]
            case "stats":
                command = [TOPIC, *state, *step]
            case "find":
                command = [TOPIC, "--field", "user.id=5", "--header", "trace", *state, *step]
            case _:
                raise ValueError(job)
        return [job, *command, *here, "--json", *SPARK]

    def copy(self, job: str, way: str) -> str:
        """The target topic of the copy."""
        return f"{job}.{way}.{TOPIC}"

    def outcome(self, job: str, way: str, ran: Mapping[str, Any]) -> Outcome:
        """`ran`: see tests.e2e.spark_commands. Raises CampaignStuck."""
        if ran["exit_code"] != 0:
            return Outcome(ran["exit_code"], None, f"{ran['err']}{ran['failure'] or ''}")
        is_copy = job in (BACKFILL, MIRROR)
        result = contents(self.target, self.copy(job, way)) if is_copy else json.loads(ran["out"])
        return Outcome(0, result, ran["err"])


def run_commands(commands: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Run the commands one after another in one Spark session. Raises CampaignStuck."""
    if not commands:
        return []
    done = subprocess.run(
        dying_with_us([sys.executable, "-m", "tests.e2e.spark_commands", json.dumps(commands)]),
        capture_output=True,
        text=True,
        timeout=RUN_WAIT_S,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, **ENVIRONMENT},
    )
    if done.returncode != 0:
        raise CampaignStuck(f"commands could not be run: {done.stderr[-2_000:]}")
    results: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["commands"]
    return results


def kill_in_the_middle(world: World, job: str) -> dict[str, Any]:
    """Kill a job in the middle; returns how far it was. Raises CampaignStuck when it ended first."""
    command = [bmq_command(), "spark", *world.arguments(job, KILLED)]
    share, after_s = (world.random.uniform(*bounds) for bounds in (KILLED_IN, AFTER_S))
    process = Job(job, command, world.plan.directory / f"{job}.log", ENVIRONMENT, progress=lambda _: 0)
    state = world.plan.directory / f"state-{job}-{KILLED}"
    if job in (BACKFILL, MIRROR):
        total = world.plan.records
        with closing(TargetEnds(world.target, world.copy(job, KILLED))) as ends:
            return kill_when(process, ends.total, lambda: total, share, after_s, "offsets of the target")
    return kill_when(
        process, lambda: len(list(state.glob("step-*.json"))), lambda: steps_of(job, state), share, after_s, "steps"
    )


def steps_of(job: str, state: Path) -> int:
    """The number of steps; 0: not planned yet."""
    try:
        plan = json.loads((state / "plan.json").read_text())["plan"]
    except FileNotFoundError:
        return 0
    return len(plan) if job == VERIFY else STEPS


def kill_when(
    job: Job, done: Callable[[], int], total: Callable[[], int], share: float, after_s: float, unit: str
) -> dict[str, Any]:
    """Start the job, and kill it `after_s` after this share is done. Raises CampaignStuck when it ends first."""

    def is_in_the_middle() -> bool:
        of = total()
        return not job.process.is_running or (of > 0 and done() >= max(1, share * of))

    job.start()
    try:
        eventually(is_in_the_middle, MIDDLE_WAIT_S, f"{job.process.name} is in the middle", interval_s=0.02)
        # Wait within its next work, but not until its end.
        until = time.monotonic() + after_s
        while time.monotonic() < until and done() < total() - 1 and job.process.is_running:
            time.sleep(0.01)
        if not job.process.is_running:
            raise CampaignStuck(f"{job.process.name} has ended before it could be killed{job.process}")
    finally:
        job.close()
    return {"done": done(), "of": total(), "unit": unit}


# -- The table job -----------------------------------------------------------------------------------------------------


def table_entry(stage: Stage, world: World) -> dict[str, Any]:
    """Raises CampaignStuck, ProcessFailed."""
    form = world.plan.directory / "definition.json"
    form.write_text(json.dumps(definition(TOPIC)))

    def job(way: str) -> Job:
        warehouse = f"{stage.hdfs.url}/tables-{way}"
        command = [
            *(sys.executable, "-m", "bmq.spark.tables", "--definition", str(form), "--bootstrap", world.source),
            *("--warehouse", warehouse, "--checkpoint", f"{warehouse}-checkpoint", "--available-now"),
            *("--max-offsets-per-trigger", str(max(1, world.plan.records // STEPS)), "--merge-every", "3"),
        ]
        log_file = world.plan.directory / f"table-{way}.log"
        return Job("table job", command, log_file, TABLE_ENVIRONMENT, progress=lambda job: len(batches(job)))

    def outcome(way: str, process: ManagedProcess) -> Outcome:
        code = process.wait(RUN_WAIT_S)
        if code != 0:
            return Outcome(code, None, process.log_of_this_run())
        rows = TableReader(f"{stage.hdfs.url}/tables-{way}/tables/{TABLE}").rows()
        digest = hashlib.sha256()
        for row in rows.select(sorted(rows.column_names)).to_pylist():
            digest.update(repr(row).encode())
        return Outcome(0, [rows.num_rows, sorted(rows.column_names), digest.hexdigest()], process.log_of_this_run())

    share, after_s = (world.random.uniform(*bounds) for bounds in (KILLED_IN, AFTER_S))
    calm, killed = job(CALM), job(KILLED)
    try:
        calm.start()
        undisturbed = outcome(CALM, calm.process)
        killed_at = kill_when(killed, lambda: len(batches(killed)), lambda: STEPS, share, after_s, "batches")
        killed.start()
        resumed = outcome(KILLED, killed.process)
    finally:
        calm.close()
        killed.close()
    return entry(TABLE_JOB, undisturbed, resumed, killed_at)


# -- All ---------------------------------------------------------------------------------------------------------------


def compare_commands(world: World, jobs: Sequence[str]) -> list[dict[str, Any]]:
    """Raises CampaignStuck."""
    calm = run_commands([world.arguments(job, CALM) for job in jobs])
    killed_at = {}
    for job in jobs:
        killed_at[job] = kill_in_the_middle(world, job)
        say(f"    {job} was killed at {killed_at[job]}")
    resumed = run_commands([world.arguments(job, KILLED) for job in jobs])
    return [
        entry(job, world.outcome(job, CALM, first), world.outcome(job, KILLED, second), killed_at[job])
        for job, first, second in zip(jobs, calm, resumed, strict=True)
    ]


def measure(stage: Stage, side: BmqSide, target: BmqServer, plan: Plan) -> dict[str, Any]:
    """Raises CampaignStuck, ProcessFailed, AssertionError."""
    make_topic(side, PARTITIONS, topic=TOPIC, segment_bytes=str(SEGMENT_BYTES), retention_ms="-1")
    fill(side.bootstrap, plan)
    world = World(plan, side.bootstrap, target.bootstrap, Random(plan.seed))
    entries = compare_commands(world, [job for job in COMMANDS if job in plan.jobs])
    if TABLE_JOB in plan.jobs:
        entries.append(table_entry(stage, world))
    for each in entries:
        say(f"  {each['job']}: {'the same' if each['is_same'] else 'DIFFERENT'}, killed at {each['killed_at']}")
    return {
        "jobs_resumed_differently": sum(not each["is_same"] for each in entries),
        "jobs": entries,
        "source": contents(side.bootstrap, TOPIC),
    }


def run(plan: Plan) -> dict[str, Any]:
    """Raises CampaignStuck, ProcessFailed, AssertionError."""
    say(f"resume campaign with seed {plan.seed}")
    began = time.monotonic()
    stage = Stage(plan.directory)
    target = BmqServer(plan.directory / "target")
    try:
        with stage.bmq(COMBINED) as side:
            target.start()
            set_up_s = round(time.monotonic() - began, 1)
            found = measure(stage, side, target, plan)
    finally:
        target.close()
        stage.down()
    return {
        "seed": plan.seed,
        "plan": {**asdict(plan), "directory": str(plan.directory)},
        "set_up_s": set_up_s,
        "seconds": round(time.monotonic() - began, 1),
        **found,
    }


def plan_of(arguments: Sequence[str] | None = None) -> tuple[Plan, Path | None]:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--smoke", action="store_true", help="fewer records")
    options.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    options.add_argument("--records", type=int)
    options.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS))
    options.add_argument("--directory", type=Path, default=DATA)
    options.add_argument("--results", type=Path)
    given = options.parse_args(arguments)
    plan = replace(SMOKE if given.smoke else Plan(), seed=given.seed, directory=given.directory)
    plan = replace(plan, jobs=tuple(job for job in JOBS if job in given.only))
    return replace(plan, records=given.records) if given.records else plan, given.results


if __name__ == "__main__":
    sys.exit(perform_command(run, *plan_of()))
