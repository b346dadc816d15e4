"""Jobs on Spark that cannot even begin: one sentence and the exit code that goes with it, no traceback, nothing left behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from testing.patience import Patience
from testing.processes import REPOSITORY, dying_with_us
from testing.servers import Server, bmq_command
from testing.table_topics import orders_form
from tests.e2e.conftest import TopicMaker
from tests.support.spark import SPARK_ENVIRONMENT

pytestmark = [pytest.mark.campaign("spark-jobs"), pytest.mark.bmq_only, pytest.mark.timeout(300)]


def run(*command: str, **environment: str) -> tuple[int, str]:
    """Exit code and what was said on standard error."""
    done = subprocess.run(
        dying_with_us(command),
        capture_output=True,
        text=True,
        timeout=Patience(200).limit_s,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, **SPARK_ENVIRONMENT, **environment},
    )
    assert done.stdout == ""
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr


@pytest.fixture
def silent_server() -> Iterator[str]:
    """HOST:PORT of something that takes connections and never says a word: a proxy that hangs."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.spark
def test_without_java(server: Server, make_topic: TopicMaker, tmp_path: Path) -> None:
    topic = make_topic()
    java_home = {"JAVA_HOME": str(tmp_path / "no-java")}
    code, said = run(bmq_command(), "spark", "stats", topic, "--bootstrap", server.bootstrap, **java_home)
    assert code == 1
    assert said.splitlines()[-1].startswith("bmq: Spark cannot be started (it needs Java 17 or later): ")
    definition = tmp_path / "orders.json"
    definition.write_text(json.dumps(orders_form(topic)))
    warehouse = tmp_path / "warehouse"
    code, said = run(
        *(sys.executable, "-m", "bmq.spark.tables", "--definition", str(definition)),
        *("--bootstrap", server.bootstrap, "--warehouse", str(warehouse), "--checkpoint", str(tmp_path / "checkpoint")),
        **java_home,
    )
    assert code == 2
    assert said.splitlines()[-1].startswith("bmq: Spark cannot be started (it needs Java 17 or later): ")
    assert not warehouse.exists()


def test_a_cluster_that_does_not_answer_is_worth_another_try(silent_server: str) -> None:
    code, said = run(bmq_command(), "spark", "stats", "events", "--bootstrap", silent_server)
    assert code == 75
    assert said.startswith("bmq: ") and said.count("\n") == 1
    assert silent_server in said
