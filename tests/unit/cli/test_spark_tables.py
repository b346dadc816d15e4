"""`bmq spark table` and `bmq spark tables` without Spark: the job's arguments, refusals, and what is shown."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bmq.cli import job as job_module
from bmq.cli import spark_tables as commands
from bmq.cli.commands import app
from bmq.rest_client.login import RestLogin
from bmq.spark.supervisor.effects import Say, TableState, WantedTable
from bmq.spark.supervisor.table_supervisor import TableSupervisor
from bmq.spark.tables.ending import Ending

pytestmark = pytest.mark.unit

PLACES = ["--warehouse", "hdfs://nn/w", "--checkpoints", "hdfs://nn/c/"]
ORDERS = WantedTable("orders", "id", "topic", 3)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(job_module, "configure_logs", lambda *_: None)
    monkeypatch.setattr(commands, "_CHECKOUT_JARS", tmp_path / "none")
    for name in ("BMQ_TABLES_WAREHOUSE", "BMQ_TABLES_CHECKPOINTS", "BMQ_SPARK_JARS", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)


def bmq(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["spark", *arguments])


@pytest.fixture
def job_arguments(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], RestLogin | None]]:
    """What the job was started with; it ends with 2."""
    table_job = pytest.importorskip("bmq.spark.tables.__main__")
    given: list[tuple[list[str], RestLogin | None]] = []

    def main(arguments: Sequence[str], login: RestLogin | None = None) -> int:
        table_job.parser().parse_args(arguments)
        given.append((list(arguments), login))
        return 2

    monkeypatch.setattr(table_job, "main", main)
    return given


def values(arguments: Sequence[str], option: str) -> list[str]:
    return [value for name, value in pairwise(arguments) if name == option]


def test_the_job_of_one_table(job_arguments: list[tuple[list[str], RestLogin | None]], tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    for name in ("b.jar", "a.jar", "a.txt"):
        (jars / name).touch()
    result = bmq(
        *("table", "orders", *PLACES, "--jars", str(jars), "--conf", "spark.driver.memory=700m", "--trigger-s", "2.5"),
        *(
            "--rest",
            "http://n:1",
            "--rest-token-file",
            "t.token",
            "--bootstrap",
            "n:2",
            "--take-over",
            "--merge-every",
            "0",
        ),
        *("--option", "kafka.security.protocol=SSL", "--max-offsets-per-trigger", "50"),
    )
    assert result.exit_code == 2, result.output
    ((arguments, login),) = job_arguments
    assert login == RestLogin(token_file="t.token")
    assert values(arguments, "--checkpoint") == ["hdfs://nn/c/orders"]
    assert values(arguments, "--table") == ["orders"] and values(arguments, "--rest") == ["http://n:1"]
    assert values(arguments, "--option") == ["kafka.security.protocol=SSL"]
    assert values(arguments, "--trigger-s") == ["2.5"] and values(arguments, "--merge-every") == ["0"]
    assert values(arguments, "--output") == ["text"] and "--take-over" in arguments
    conf = dict(pair.split("=", 1) for pair in values(arguments, "--conf"))
    assert conf["spark.jars"] == f"{jars}/a.jar,{jars}/b.jar"
    assert conf["spark.master"] == "local[*]" and conf["spark.driver.memory"] == "700m"


def test_the_job_of_an_index_takes_the_options_of_a_table(
    job_arguments: list[tuple[list[str], RestLogin | None]], tmp_path: Path
) -> None:
    (tmp_path / "a.jar").touch()
    result = bmq("index", "i", *PLACES, "--jars", str(tmp_path), "--conf", "a=b", "--rebuild-day", "2026-11-29")
    assert result.exit_code == 2, result.output
    bmq("index", "i", *PLACES, "--json", "--available-now")
    (arguments, _), (other, _) = job_arguments
    assert values(arguments, "--table") == ["i"] and values(arguments, "--checkpoint") == ["hdfs://nn/c/i"]
    assert {f"spark.jars={tmp_path}/a.jar", "spark.master=local[*]", "a=b"} <= set(values(arguments, "--conf"))
    assert values(arguments, "--rebuild-day") == ["2026-11-29"]
    assert (values(arguments, "--output"), values(other, "--output")) == (["text"], ["json"])


def test_settings_of_spark_submit_hold(
    job_arguments: list[tuple[list[str], RestLogin | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars x.jar --master yarn pyspark-shell")
    bmq("table", "orders", *PLACES, "--available-now", "--json")
    ((arguments, _),) = job_arguments
    conf = dict(pair.split("=", 1) for pair in values(arguments, "--conf"))
    assert "spark.master" not in conf and "spark.jars" not in conf
    assert "--available-now" in arguments and "--trigger-s" not in arguments
    assert values(arguments, "--output") == ["json"]


@pytest.mark.parametrize("command", [["table", "orders"], ["tables"]])
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name --warehouse or --catalog-option, one of them"),
        ([*PLACES, "--catalog-option", "type=rest"], "name --warehouse or --catalog-option, one of them"),
        (PLACES[:2], "name a directory beside the warehouse"),
        ([*PLACES[2:], "--catalog-option", "type=delta"], "delta is no type of catalog"),
        ([*PLACES[2:], "--catalog-option", "type"], "type is not KEY=VALUE"),
        ([*PLACES[2:], "--catalog-option", "@/no/such/file"], "cannot be read as a file of options"),
        ([*PLACES, "--conf", "spark.driver.memory"], "'spark.driver.memory' is not NAME=VALUE"),
        ([*PLACES, "--jars", "EMPTY"], "there are no jars in"),
    ],
)
def test_wrong_usage(command: list[str], arguments: list[str], sentence: str, tmp_path: Path) -> None:
    given = [str(tmp_path) if each == "EMPTY" else each for each in arguments]
    result = bmq(*command, *given)
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.replace("│", " ").split())


def test_an_address_that_is_none_is_a_sentence() -> None:
    pytest.importorskip("pyspark")
    result = bmq("tables", *PLACES, "--rest", "ftp://n:1")
    assert (result.exit_code, result.stderr) == (
        1,
        "bmq: ftp://n:1 is no address of a node: its scheme is ftp, and not http or https\n",
    )


def test_each_table_gets_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    started: list[tuple[list[str], Any]] = []

    class FakeProcess:
        def __init__(self, command: list[str], environment: Any, *, on_alive: Any, on_line: Any, on_end: Any) -> None:
            started.append((command, environment))
            on_line("a warning of Spark")
            on_alive()
            on_end(Ending.FAILED, "no Java")

    class Supervised(TableSupervisor):
        """Starts the job of one table, and shows a state and a trouble."""

        def run(self) -> None:
            class Events:
                def alive(self) -> None: ...

                def ended(self, ending: Ending, error: str | None) -> None: ...

            self._start_job(ORDERS, Events())
            self._show.state(Say(ORDERS, TableState.FAILED, "no Java", 4.0))
            self._show.trouble("the cluster is away")

    monkeypatch.setattr("bmq.spark.supervisor.job_process.JobProcess", FakeProcess)
    monkeypatch.setattr("bmq.spark.supervisor.table_supervisor.TableSupervisor", Supervised)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        result = bmq("tables", *PLACES, "--rest", "http://n:1", "--rest-user", "u", "--rest-password-file", "p")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert result.exit_code == 0, result.output
    ((command, environment),) = started
    assert command[:4] == [sys.executable, "-P", "-m", "bmq.spark.tables"]
    assert values(command, "--checkpoint") == ["hdfs://nn/c/orders"] and values(command, "--output") == ["states"]
    assert "--end-with-parent" in command and not {"u", "p"} & set(command)
    assert (environment["BMQ_REST_USER"], environment["BMQ_REST_PASSWORD_FILE"]) == ("u", "p")
    assert environment["BMQ_REST_CONFIG"] == "" and environment["PATH"] == os.environ["PATH"]
    assert result.stdout == "orders: failed: no Java; again in 4 s\n"
    assert result.stderr == "orders | a warning of Spark\nbmq: the cluster is away\n"


def test_a_state_for_people_and_for_programs() -> None:
    assert commands.state_text(Say(ORDERS, TableState.RUNNING)) == "orders: running"
    taken = Say(ORDERS, TableState.TAKEN, "it was taken over", 300)
    assert commands.state_text(taken) == "orders: written by another job: it was taken over; again in 300 s"
    assert json.loads(commands.state_json(taken)) == {
        "table": "orders", "state": "taken", "error": "it was taken over", "again_in_s": 300, "version": 3,
    }  # fmt: skip


def test_a_day_that_is_none_is_refused_before_spark_starts() -> None:
    result = bmq("index", "i", *PLACES, "--rebuild-day", "soon")
    assert result.exit_code == 2
    assert "'soon' is no day; write it as 2026-11-29, in UTC" in " ".join(result.output.replace("│", " ").split())
