"""`bmq spark` without Spark: exit codes, sentences, tables and progress."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bmq.cli import job as job_module
from bmq.cli import main
from bmq.cli import spark as commands
from bmq.cli.commands import app
from bmq.cli.progress import JobProgress
from bmq.cli.spark_output import print_found, print_stats, print_verified
from bmq.extras import install_command
from bmq.spark.jobs.find import FoundRecord
from bmq.spark.jobs.outcome import BrokenOff, ExitCode, JobFailed
from bmq.spark.jobs.segment_check import Finding, Kind
from bmq.spark.jobs.stats_report import StatsReport
from bmq.spark.jobs.verify_report import SegmentResult, report_of

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def logs_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loggers keep the standard error they were set up with, which is the test's own and ends with it."""
    monkeypatch.setattr(job_module, "configure_logs", lambda *_: None)


def test_no_module_hides_one_of_python_when_spark_submit_starts_the_script() -> None:
    """`spark-submit bmq/cli/main.py` puts the script's folder before all others."""
    folder = Path(main.__file__).parent
    assert not {path.stem for path in folder.iterdir()} & sys.stdlib_module_names


@pytest.mark.parametrize(
    ("failure", "code", "sentence"),
    [
        (JobFailed("it is wrong"), ExitCode.FAILED, "bmq: it is wrong\n"),
        (BrokenOff("it is away"), ExitCode.TRY_AGAIN, "bmq: it is away\n"),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, ""),
        (
            ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql"),
            ExitCode.FAILED,
            f"bmq: jobs need pyspark.sql: {install_command('spark')}\n",
        ),
    ],
)
def test_a_failure_is_a_sentence_and_an_exit_code(
    failure: BaseException, code: ExitCode, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, job_module.job():
        raise failure
    assert ended.value.exit_code == code
    assert capsys.readouterr().err == sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["stats", "t", "--source", "x"], "it is bmq or kafka"),
        (["stats", "t", "--kafka", "x"], "is not NAME=VALUE"),
        (["backfill", "a", "b", "--partitioner", "x"], "it is source or key"),
        (["mirror", "--target", "x:1"], "name topics, or give a --pattern"),
        (["mirror", "t"], "name the other cluster"),
        (["mirror", "t", "--pattern", "t", "--target", "x:1"], "name topics, or give a --pattern"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_ranges", lambda *_: ())
    monkeypatch.setattr(commands, "_store", lambda *_: None)
    monkeypatch.setattr(commands, "_session", lambda *_: None)
    result = CliRunner().invoke(app, ["spark", *arguments])
    assert result.exit_code == ExitCode.BAD_USAGE
    assert sentence in " ".join(result.output.split())


@pytest.mark.parametrize("arguments", [["stats", "t", "--from", "soon"], ["find", "t", "--field", "a["]])
def test_what_cannot_be_read_is_one_sentence(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["spark", *arguments])
    assert result.exit_code == ExitCode.FAILED
    assert result.output.startswith("bmq: ") and result.output.count("\n") == 1


def test_progress_is_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    with JobProgress("stats") as progress:
        for done in (0, 10, 20, 100):
            progress.show(done, 100, "offsets")
    assert shown.getvalue() == "stats: 0 of 100 offsets (0%)\nstats: 100 of 100 offsets (100%)\n"


def test_tables_show_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    finding = Finding(Kind.REPLICA, "t", 1, "a/b.log", "it [differs]", 3, 4, "node:1")
    print_verified(report_of([SegmentResult("t", 1, "a/b.log", 0, 5, 1, 5, 99, findings=(finding,), finding_count=60)]))
    report = StatsReport()
    report.add_rows(
        [
            {
                "topic": "t",
                "partition": 0,
                "hour": 472_000,
                "records": 2,
                "keyed": 1,
                "tombstones": 1,
                "key_bytes": 3,
                "value_bytes": 1_000,
                "header_bytes": 0,
                "first_timestamp_ms": 1_699_200_000_000,
                "last_timestamp_ms": 1_699_200_000_001,
            }
        ]
    )
    print_stats(report)
    print_found([FoundRecord("t", 0, 7, 1_699_200_000_000, b"k", None, (("h", b"\xff"),))])
    shown = capsys.readouterr().out
    for text in ("it [differs]", "node:1", "[0, 5)", "1 kB", "2023-11-05T16:00", "h=\\xff", "t-0"):
        assert text in shown
