"""What the job's command tells the cluster, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from bmq.rest_client.login import RestLogin
from bmq.spark.tables import __main__ as command
from bmq.spark.tables.cluster_tables import ClusterTable
from bmq.spark.tables.day import Day
from bmq.spark.tables.day_rebuild import RebuiltDay
from bmq.spark.tables.ending import Ending
from bmq.spark.tables.errors import RecordsLost, TableJobError, TableMismatch, TableTaken
from bmq.spark.tables.heartbeat import heartbeat
from bmq.spark.tables.iceberg import Catalog
from bmq.spark.tables.job_lines import StateLine, state_of_line
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
        def is_active(self) -> bool:
            return True

        def stop(self) -> None:
            pass

        def wait(self) -> None:
            wait()

    monkeypatch.setattr(command, "ClusterTable", Cluster)
    monkeypatch.setattr(command, "_session", lambda name, settings: None)
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


def test_options_of_the_source_come_from_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "kafka.options"
    file.write_text('# the login\n\nkafka.sasl.jaas.config=… password="a=b";\n')
    given = command.parser().parse_args([*ARGUMENTS, "--option", "a=1", "--option", f"@{file}"])
    assert given.option == [("a", "1"), ("kafka.sasl.jaas.config", '… password="a=b";')]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"secret", "line 1: it is not KEY=VALUE"),
        (b"a=1\n =secret", "line 2: it is not KEY=VALUE"),
        (b"\xff=secret", "cannot be read as a file of options"),
        (b"a=" + b"s" * (1 << 20), "has more than 1048576 bytes"),
        (None, "cannot be read as a file of options"),
    ],
)
def test_a_bad_file_of_options_is_told_without_its_secrets(
    content: bytes | None, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kafka.options"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SystemExit):
        command.parser().parse_args([*ARGUMENTS, "--option", f"@{file}"])
    said = capsys.readouterr().err
    assert sentence in said and "secret" not in said


def test_states_are_said_for_a_supervisor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "heartbeat", lambda beat, every_s: nullcontext(beat()))
    monkeypatch.setattr(f"{__name__}.ARGUMENTS", [*ARGUMENTS, "--output", "states"])
    ends_with(monkeypatch, raising(TableTaken("another job has it")))
    states = [state_of_line(line) for line in capsys.readouterr().out.splitlines()]
    assert states == [StateLine(None), StateLine(None), StateLine(Ending.TAKEN, "another job has it")]


def test_there_is_no_sign_of_life_without_an_answer_of_the_jvm() -> None:
    beats: list[str] = []

    class Cluster:
        def beat(self) -> None:
            beats.append("cluster")

    def no_answer() -> bool:
        raise ConnectionError("the JVM is gone")

    cluster = cast(ClusterTable, Cluster())
    command.Beat(no_answer, cluster, lambda: beats.append("said"))()
    assert beats == []
    command.Beat(lambda: False, cluster, lambda: beats.append("said"))()
    assert beats == ["said", "cluster"], "between two streams the job lives"


def rebuild(monkeypatch: pytest.MonkeyPatch, run: Callable[[Day, int], RebuiltDay]) -> int:
    """The exit code of a command that builds a day again; a cluster that is told something fails the test."""

    class Cluster:
        def __init__(self, url: str, name: str, login: RestLogin) -> None:
            pass

        definition = staticmethod(definition)

    class Rebuild:
        def __init__(self, spark: object, of: object, catalog: Catalog, source: str, options: dict[str, str]) -> None:
            assert (catalog.options["warehouse"], source, options) == (
                "/w",
                "kafka",
                {"kafka.bootstrap.servers": "n:2"},
            )

        def run(self, day: Day, now_ms: int) -> RebuiltDay:
            return run(day, now_ms)

    monkeypatch.setattr(command, "ClusterTable", Cluster)
    monkeypatch.setattr(command, "_session", lambda name, settings: None)
    monkeypatch.setattr(command, "remembered_interrupt", nullcontext)
    monkeypatch.setattr(command, "DayRebuild", Rebuild)
    return command.main([*ARGUMENTS, "--rebuild-day", "2026-11-29", "--output", "text"])


def test_a_day_is_built_again_and_nothing_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rebuild(monkeypatch, lambda day, now_ms: RebuiltDay("t", day.text, 5, 1, 7, 2, 99)) == 0
    assert capsys.readouterr().out == "t: 2026-11-29: 1 files with 5 rows became 2 files with 7 rows\n"


@pytest.mark.parametrize(("error", "code"), [(TableMismatch("no such day"), 2), (TableJobError("no broker"), 1)])
def test_a_day_that_cannot_be_built_again_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: TableJobError, code: int
) -> None:
    def run(day: Day, now_ms: int) -> RebuiltDay:
        raise error

    assert rebuild(monkeypatch, run) == code
    assert capsys.readouterr().err == f"bmq: {error}\n"


def test_what_is_no_day_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main([*ARGUMENTS, "--rebuild-day", "yesterday"])
    assert "'yesterday' is no day" in capsys.readouterr().err
