"""Jobs as a notebook calls them: the examples of docs/SPARK_JOBS.md, and a topic that changes under a backfill.

Run by tests.e2e.spark_commands in the session that its commands have started.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from bmq.spark.jobs.backfill import BackfillOptions, BackfillPlan, backfill, plan_backfill
from bmq.spark.jobs.cluster import Cluster
from bmq.spark.jobs.copying import CopyRoute
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.source import Source
from testing.processes import REPOSITORY, eventually

SHRINKS = "shrinks"
COUNT = 300
KEPT_FROM = 290
STEP = 100


def call_all(source: str, target: str, directory: Path) -> dict[str, Any]:
    spark = SparkSession.getActiveSession()
    assert spark is not None, "the commands started none"
    return {"examples": examples(spark, source, target, directory), **ShrinkingTopic(spark, source).all()}


def examples(spark: SparkSession, source: str, target: str, directory: Path) -> dict[str, Any]:
    text = (REPOSITORY / "docs" / "SPARK_JOBS.md").read_text()
    found: dict[str, Any] = {"spark": spark}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        block = block.replace("localhost:9092", source).replace("other:9092", target)
        exec(block.replace("events.png", f"{directory}/events.png"), found)
    return {
        "stats": sum(each["records"] for each in found["report"].to_json()["topics"][0]["partitions"]),
        "picture": (directory / "events.png").stat().st_size,
        "found": len(found["found"]),
        "damage": len(found["damage"]),
        "plan": found["plan"].to_json()["offsets_left"],
        "copied": found["copied"],
        "mirror plan": len(found["planned"]),
        "mirrored": found["mirrored"],
    }


class ShrinkingTopic:
    """A backfill whose records are deleted while it runs, and whose topic is made again after it."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self._spark = spark
        self._cluster = Cluster({"bootstrap.servers": bootstrap})
        self._source = Source(bootstrap)
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._bootstrap = bootstrap

    def all(self) -> dict[str, Any]:
        self._make()
        plan = self._plan()
        refused = self._said(lambda: self._copy(plan, self))
        planned_again = self._said(self._plan)
        copied = self._copy(self._plan(skips_deleted=True), None, skips_deleted=True)
        self._admin.delete_topics([SHRINKS])[SHRINKS].result(30)
        eventually(lambda: SHRINKS not in self._admin.list_topics(timeout=30).topics, 60, "the topic is gone")
        self._make()
        return {
            "deleted while copying": refused,
            "planned again": planned_again,
            "copied without": copied,
            "made again": self._said(self._plan),
        }

    def show(self, done: int, total: int, unit: str) -> None:
        """Told of progress: deletes what is left, but for a few."""
        if done == STEP:
            place = TopicPartition(SHRINKS, 0, KEPT_FROM)
            self._admin.delete_records([place])[TopicPartition(SHRINKS, 0)].result(30)

    def _make(self) -> None:
        self._admin.create_topics([NewTopic(SHRINKS, 1, 1)])[SHRINKS].result(30)
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for number in range(COUNT):
            producer.produce(SHRINKS, b"%d" % number, partition=0)
        assert producer.flush(30) == 0

    def _plan(self, *, skips_deleted: bool = False) -> BackfillPlan:
        ranges = self._cluster.ranges([SHRINKS])
        return plan_backfill(
            self._cluster, self._cluster, SHRINKS, "shrunk", ranges, BackfillOptions(skips_deleted=skips_deleted)
        )

    def _copy(self, plan: BackfillPlan, progress: ShrinkingTopic | None, *, skips_deleted: bool = False) -> int:
        return backfill(
            CopyRoute(self._spark, self._source, self._cluster, self._cluster),
            plan,
            offsets_per_step=STEP,
            skips_deleted=skips_deleted,
            progress=progress,
        )

    @staticmethod
    def _said(action: Any) -> str:
        try:
            action()
        except JobFailed as failed:
            return f"{failed.exit_code.name}: {failed}"
        return ""
