"""A Spark that is too old, or none: a sentence, wherever it is noticed."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

pytest.importorskip("pyspark")
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from bmq.spark import release
from bmq.spark.jobs.outcome import ExitCode, JobFailed
from bmq.spark.jobs.session import open_session
from bmq.spark.release import SparkTooOld
from bmq.spark.source import register
from bmq.spark.tables import __main__ as table_job
from testing.table_topics import orders_form

pytestmark = pytest.mark.unit

COMMAND = ["--definition", "orders.json", "--bootstrap", "127.0.0.1:1", "--warehouse", "w", "--checkpoint", "c"]


def test_an_older_spark_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(release, "version", lambda _: "3.5.6")
    sentence = "needs Spark 4.0 or later, this is Spark 3.5.6"
    with pytest.raises(SparkTooOld, match=rf"^format\('bmq'\) {sentence}$"):
        register(object())
    with pytest.raises(JobFailed, match=f"^bmq spark {sentence}$") as failed:
        open_session("job")
    assert failed.value.exit_code == ExitCode.FAILED
    assert table_job.main(COMMAND) == table_job.REFUSED
    assert capsys.readouterr().err == f"bmq: a table {sentence}\n"


@pytest.mark.parametrize(
    ("option", "value"),
    [("--merge-every", "-1"), ("--trigger-s", "nan"), ("--trigger-s", "-1"), ("--max-offsets-per-trigger", "0")],
)
def test_a_number_that_cannot_be_is_wrong_usage(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        table_job.main([*COMMAND, option, value])
    assert ended.value.code == table_job.REFUSED
    assert f"argument {option}: {value} is no" in capsys.readouterr().err


def test_an_address_that_is_none_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--table", "t", "--rest", "http://node:rest", *COMMAND[2:]]
    assert table_job.main(command) == table_job.REFUSED
    assert "the address of REST is no address of a node" in capsys.readouterr().err


def test_none_at_all_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_version(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(release, "version", no_version)
    with pytest.raises(JobFailed, match=r"^jobs need Spark: \S+ -m pip install .*pyspark=="):
        open_session("job")


class JavaException:
    """As Py4J shows one of a context that cannot be made: Spark's own classes come with the session only."""

    _target_id = "o1"

    def getCause(self) -> None:  # noqa: N802  # Java's name
        pass

    def getMessage(self) -> str:  # noqa: N802
        return "Could not parse Master URL: 'foo'"

    def getClass(self) -> Any:  # noqa: N802
        return SimpleNamespace(getSimpleName=lambda: "SparkException")


def test_a_master_that_is_none_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(builder: object) -> NoReturn:
        raise Py4JJavaError("An error occurred", JavaException())

    monkeypatch.setenv("PYSPARK_PYTHON", "python")  # open_session sets it
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda **_: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", fail)
    sentence = "SparkException: Could not parse Master URL: 'foo'"
    with pytest.raises(JobFailed, match=f"Spark cannot be started .*: {sentence}$"):
        open_session("job", master="foo")
    (tmp_path / "orders.json").write_text(json.dumps(orders_form("orders")))
    assert table_job.main([COMMAND[0], str(tmp_path / "orders.json"), *COMMAND[2:]]) == table_job.REFUSED
    assert capsys.readouterr().err.endswith(f"{sentence}\n")


@pytest.mark.parametrize("version", ["4.0.0", "4.1.2", "4.10.0.dev1", "5.0"])
def test_a_later_one_will_do(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "version", lambda _: version)
    release.require_spark("a job")
