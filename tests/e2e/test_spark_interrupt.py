"""Ctrl-C while Spark starts: exit code 130, no traceback, and no JVM that stays."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from testing.processes import ManagedProcess, eventually
from testing.servers import Server, bmq_command
from testing.table_topics import SUBMIT_ARGUMENTS, orders_form
from tests.e2e.conftest import TopicMaker
from tests.support.spark import SPARK_ARGUMENTS, SPARK_ENVIRONMENT

pytestmark = [pytest.mark.campaign("spark-jobs"), pytest.mark.bmq_only, pytest.mark.timeout(300)]

WAIT_S = 120.0
IGNORES_CTRL_C = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
"""As a shell starts a command in background."""


def children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in text.split()]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def interrupted(command: list[str], log_file: Path, moment: str, **environment: str) -> str:
    """Its output. Ctrl-C as a terminal sends it, to the whole group, once a child with `moment` in its command
    line is there.
    """
    process = ManagedProcess("job", command, log_file, {**SPARK_ENVIRONMENT, **environment})
    process.start()
    jvms: set[int] = set()

    def has_come() -> bool:
        assert process.is_running, f"{process}"
        jvms.update(children(process.pid))
        return any(moment in command_line(pid) for pid in jvms)

    try:
        eventually(has_come, WAIT_S, f"a child with {moment}")
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(WAIT_S) == 130, f"{process}"
        jvms |= set(children(process.pid))
        eventually(lambda: not any(command_line(pid) for pid in jvms), WAIT_S, "the JVM ends")
    finally:
        process.kill()
        for pid in jvms:
            if command_line(pid):
                os.kill(pid, signal.SIGKILL)
    return process.log_of_this_run()


@pytest.mark.parametrize("moment", ["", "org.apache.spark.deploy.SparkSubmit"])
def test_a_job_that_is_interrupted_while_spark_starts(
    server: Server, make_topic: TopicMaker, tmp_path: Path, moment: str
) -> None:
    """Before there is a JVM, and once it runs and has not told its port."""
    command = [bmq_command(), "spark", "stats", make_topic(), "--bootstrap", server.bootstrap, *SPARK_ARGUMENTS]
    assert "Traceback" not in interrupted(command, tmp_path / "job.log", moment)


@pytest.mark.parametrize("parent", [[], IGNORES_CTRL_C], ids=["", "parent-ignores"])
def test_a_table_job_that_is_interrupted_while_spark_starts(
    server: Server, make_topic: TopicMaker, tmp_path: Path, parent: list[str]
) -> None:
    definition = tmp_path / "orders.json"
    definition.write_text(json.dumps(orders_form(make_topic())))
    command = [
        *parent,
        *(sys.executable, "-m", "bmq.spark.tables", "--definition", str(definition), "--bootstrap", server.bootstrap),
        *("--warehouse", str(tmp_path / "warehouse"), "--checkpoint", str(tmp_path / "checkpoint")),
    ]
    said = interrupted(command, tmp_path / "job.log", "deploy.SparkSubmit", PYSPARK_SUBMIT_ARGS=SUBMIT_ARGUMENTS)
    assert "Traceback" not in said
