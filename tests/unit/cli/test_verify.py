"""`bmq verify` without a server: what it is asked for, and a store that has nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bmq.cli.commands import app

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def logs_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loggers keep the standard error they were set up with, which is the test's own and ends with it."""
    monkeypatch.setattr("bmq.cli.job.configure_logs", lambda *_: None)


def verify(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["verify", *arguments])


def test_a_store_without_topics_is_clean(tmp_path: Path) -> None:
    report = verify("--data", str(tmp_path), "--json")
    assert report.exit_code == 0, report.output
    assert json.loads(report.stdout)["is_clean"]
    assert verify("--data", str(tmp_path), "--dry-run").output == f"0 segments of 0 bytes in file:{tmp_path}\n"


def test_what_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    missing = verify("--data", str(tmp_path / "none"))
    assert (missing.exit_code, missing.output.startswith("bmq: the embedded store")) == (1, True)
    no_topic = verify("gone", "--data", str(tmp_path))
    assert (no_topic.exit_code, "has no topic 'gone'" in no_topic.output) == (1, True)
    assert verify("--parallel", "0").exit_code == 2


def test_a_state_of_another_job_is_refused(tmp_path: Path) -> None:
    store, state = tmp_path / "store", tmp_path / "state"
    store.mkdir()
    assert verify("--data", str(store), "--state", str(state)).exit_code == 0
    other = verify("--data", str(store), "--state", str(state), "--no-replicas")
    assert (other.exit_code, "belongs to a job with another replicas" in other.output) == (1, True)
