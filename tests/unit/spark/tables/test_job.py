"""A job whose stream ends by itself goes on, unless it was told to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark")
from pyspark.errors import StreamingQueryException

from bmq.spark.tables.errors import TableJobError
from bmq.spark.tables.iceberg import Catalog
from bmq.spark.tables.job import TableJob
from bmq.spark.tables.maintenance_policy import MaintenancePolicy
from bmq.table_definitions.definition import TableDefinition
from testing.table_topics import orders_form

pytestmark = pytest.mark.unit


class FakeQuery:
    """Ends when it is told to, or with the connector's error; `meanwhile` happens before that."""

    def __init__(self, meanwhile: Callable[[], object], *, fails: bool) -> None:
        self._meanwhile, self._fails = meanwhile, fails
        self.is_stopped = False

    def awaitTermination(self, timeout_s: int | None = None) -> None:  # noqa: N802  # Spark's name
        self._meanwhile()
        if self._fails:
            raise StreamingQueryException("the connector replayed a batch")
        assert self.is_stopped, "it would run for ever"

    def stop(self) -> None:
        self.is_stopped = True


class FakeStream:
    def __init__(self, *queries: FakeQuery) -> None:
        self.left = list(queries)

    def start(self) -> FakeQuery:
        return self.left.pop(0)


def job_of(stream: FakeStream) -> TableJob:
    job = TableJob(
        None,
        TableDefinition.model_validate(orders_form("orders")),
        options={},
        catalog=Catalog.in_warehouse("/warehouse"),
        checkpoint="/checkpoint",
        source="kafka",
        policy=MaintenancePolicy(every_commits=0),
        on_progress=lambda _: None,
    )
    given: Any = job
    given._stream = stream
    given._query = stream.start()
    return job


def writes_a_batch(job: TableJob) -> None:
    given: Any = job
    given._batches += 1


def test_a_stream_that_ends_while_the_job_is_stopped_is_not_started_again() -> None:
    stream = FakeStream(FakeQuery(lambda: (writes_a_batch(job), job.stop()), fails=True), FakeQuery(int, fails=False))  # type: ignore[func-returns-value]
    job = job_of(stream)
    assert job.wait()
    assert len(stream.left) == 1


def test_a_stream_that_is_being_started_again_is_stopped() -> None:
    second = FakeQuery(int, fails=False)

    class StoppedMeanwhile(FakeStream):
        def start(self) -> FakeQuery:
            if self.left == [second]:
                job.stop()
            return super().start()

    stream = StoppedMeanwhile(FakeQuery(lambda: writes_a_batch(job), fails=True), second)
    job = job_of(stream)
    assert job.wait()
    assert second.is_stopped


def test_a_stream_that_gets_on_is_started_again() -> None:
    second = FakeQuery(lambda: job.stop(), fails=False)
    stream = FakeStream(FakeQuery(lambda: writes_a_batch(job), fails=True), second)
    job = job_of(stream)
    assert job.wait()
    assert not stream.left


def test_a_stream_that_does_not_get_on_ends_the_job() -> None:
    job = job_of(FakeStream(FakeQuery(int, fails=True)))
    with pytest.raises(TableJobError, match="the stream ended"):
        job.wait()
