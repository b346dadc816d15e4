"""A Spark that is too old, or none: a sentence, wherever it is noticed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from typing import NoReturn

import pytest

from bmq.spark import release
from bmq.spark.jobs.outcome import ExitCode, JobFailed
from bmq.spark.jobs.session import open_session
from bmq.spark.release import SparkTooOld
from bmq.spark.source import register
from bmq.spark.tables import __main__ as table_job

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


def test_none_at_all_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_version(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(release, "version", no_version)
    with pytest.raises(JobFailed, match=r"^jobs need Spark: pip install 'bmq\[spark\]'$"):
        open_session("job")


@pytest.mark.parametrize("version", ["4.0.0", "4.1.2", "4.10.0.dev1", "5.0"])
def test_a_later_one_will_do(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "version", lambda _: version)
    release.require_spark("a job")
