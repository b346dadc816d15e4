"""What the job's command tells the cluster, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from bmq.rest_client.login import RestLogin
from bmq.spark.tables import __main__ as command
from bmq.spark.tables.errors import RecordsLost, TableJobError, TableTaken
from bmq.spark.tables.heartbeat import heartbeat
from tests.unit.table_definitions.definitions import definition

pytestmark = pytest.mark.unit

ARGUMENTS = ["--table", "t", "--rest", "http://n:1", "--bootstrap", "n:2", "--warehouse", "/w", "--checkpoint", "/c"]


def ends_with(monkeypatch: pytest.MonkeyPatch, wait: Callable[[], object]) -> tuple[int, list[str | None]]:
    """The exit code of a job that waits so, and the ends that the cluster was told."""
    told: list[str | None] = []

    class Cluster:
        def __init__(self, url: str, name: str, login: RestLogin) -> None:
            pass

        definition = staticmethod(definition)

        def beat(self) -> None:
            pass

        def ended(self, error: str | None) -> None:
            told.append(error)

    class Job:
        def stop(self) -> None:
            pass

        def wait(self) -> None:
            wait()

    monkeypatch.setattr(command, "ClusterTable", Cluster)
    monkeypatch.setattr(command, "_session", lambda name: None)
    monkeypatch.setattr(command, "start_table", lambda *_, **__: Job())
    monkeypatch.setattr(command, "stop_at_signals", lambda stop: None)
    return command.main(ARGUMENTS), told


def raising(error: BaseException) -> Callable[[], object]:
    def wait() -> None:
        raise error

    return wait


@pytest.mark.parametrize(
    ("wait", "code", "told"),
    [
        (lambda: None, 0, [None]),
        (raising(TableJobError("Spark is away")), 1, ["Spark is away"]),
        (raising(RecordsLost("records were deleted")), 2, ["records were deleted"]),
        (raising(TableTaken("another job has it")), 2, []),
        (raising(KeyboardInterrupt()), 130, [None]),
    ],
)
def test_the_cluster_is_told_how_a_job_ended(
    monkeypatch: pytest.MonkeyPatch, wait: Callable[[], object], code: int, told: list[str | None]
) -> None:
    assert ends_with(monkeypatch, wait) == (code, told)


def test_a_failure_that_nobody_expected_is_told_and_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(command, "tell_end", lambda cluster, failure: told.append(failure))
    with pytest.raises(ZeroDivisionError):
        ends_with(monkeypatch, lambda: 1 // 0)
    assert [type(each) for each in told] == [ZeroDivisionError]


def test_without_a_cluster_nobody_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    missing = ["--definition", str(tmp_path / "none.json"), *ARGUMENTS[4:]]
    assert command.main(missing) == command.REFUSED


def test_a_heartbeat_goes_on_until_its_block_ends() -> None:
    beats = threading.Semaphore(0)
    count = 0

    def beat() -> None:
        nonlocal count
        count += 1
        beats.release()

    with heartbeat(beat, 0.001):
        for _ in range(3):
            assert beats.acquire(timeout=60)
    ended = count
    assert "bmq-table-heartbeat" not in {thread.name for thread in threading.enumerate()}
    assert count == ended >= 3
