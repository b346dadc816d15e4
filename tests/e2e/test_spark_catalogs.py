"""Tables in a catalog that is a service, Iceberg's own REST server: commits, kills within them, and readers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import pytest
from pyiceberg.catalog import load_catalog

from testing.patience import Patience
from testing.processes import REPOSITORY, ManagedProcess, dying_with_us, free_port
from testing.servers import Server
from testing.table_topics import order, orders_form, produce
from tests.e2e.conftest import create_topic, unique_name
from tests.e2e.test_spark_tables import ENVIRONMENT
from tests.support.commit_gate import CommitGate, commit_gate
from tests.support.iceberg_catalogs import rest_catalog
from tests.support.iceberg_contract import CHANGES_CONTRACT, CONTRACT, PARTS_CONTRACT

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.timeout(900)]

ALL: Final = {check.__name__ for check in (*CONTRACT, *CHANGES_CONTRACT, *PARTS_CONTRACT)}
ORDERS: Final = 400
WAIT_S: Final = 240.0


def failures(directory: Path, options: Mapping[str, str]) -> dict[str, str]:
    done = run(
        [sys.executable, "-m", "tests.e2e.spark_iceberg_contract", str(directory)]
        + [f"{key}={value}" for key, value in options.items()],
        500,
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    return cast(dict[str, str], json.loads(done.stdout.splitlines()[-1]))


def run(command: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        dying_with_us(command),
        capture_output=True,
        text=True,
        timeout=Patience(timeout_s).limit_s,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, **ENVIRONMENT},
    )


def test_contract_in_a_rest_catalog(tmp_path: Path) -> None:
    """Others come between a commit and the catalog."""
    with rest_catalog(tmp_path) as catalog:
        found = failures(tmp_path, catalog.options)
    assert {name: words for name, words in found.items() if words} == {}
    assert found.keys() == ALL | {"lost_answer"}


class Job:
    """The job of a table of orders in a REST catalog, behind a gate."""

    def __init__(self, server: Server, directory: Path, uri: str) -> None:
        self.directory = directory
        self.topic = unique_name("orders")
        create_topic(server, self.topic, 2)
        produce(server.bootstrap, self.topic, [order(number) for number in range(ORDERS)])
        (directory / "definition.json").write_text(json.dumps(orders_form(self.topic)))
        (directory / "catalog.options").write_text(f"type=rest\nuri={uri}\ntoken=t0p\n")
        self.bootstrap = server.bootstrap

    def command(self, *options: str) -> list[str]:
        return [
            *(sys.executable, "-m", "bmq.spark.tables", "--definition", str(self.directory / "definition.json")),
            *("--bootstrap", self.bootstrap, "--checkpoint", str(self.directory / "checkpoint")),
            *("--catalog-option", f"@{self.directory}/catalog.options", "--max-offsets-per-trigger", "50", *options),
        ]

    def killed_at_a_commit(self, gate: CommitGate, *, is_committed: bool) -> None:
        """Its third commit behind the claim."""
        job = ManagedProcess(
            "table job", self.command("--trigger-s", "0.05"), self.directory / f"{is_committed}.log", ENVIRONMENT
        )
        job.start()
        job.wait_for_line(r"\"batch\":\d+", WAIT_S)

        def kill() -> bool:
            os.killpg(job.pid, signal.SIGKILL)
            return True

        def kill_before() -> None:
            kill()
            raise ConnectionAbortedError("the job is gone")

        if is_committed:
            gate.after = kill
        else:
            gate.before = kill_before
        job.wait(WAIT_S)


def test_a_job_that_is_killed_within_its_commits(shared_server: Server, tmp_path: Path) -> None:
    """Before the catalog has the commit, and after it, without the answer. Then pyiceberg reads each order once."""
    with rest_catalog(tmp_path / "service") as catalog, commit_gate(catalog.options["uri"]) as gate:
        job = Job(shared_server, tmp_path, gate.uri)
        job.killed_at_a_commit(gate, is_committed=False)
        job.killed_at_a_commit(gate, is_committed=True)
        done = run(job.command("--available-now"), WAIT_S)
        assert done.returncode == 0, done.stderr[-8_000:]
        found = read_by_the_page(catalog.options["uri"])
        assert sorted(found["ids"]) == list(range(ORDERS))
        assert found["unwritten"] == {"0": ORDERS // 2, "1": ORDERS // 2}
        refused = run(job.command("--available-now", "--checkpoint", str(tmp_path / "other")), WAIT_S)
        assert refused.returncode == 2
        assert "is written by the job with checkpoint" in refused.stderr
        foreign = load_catalog("bmq", uri=catalog.options["uri"], type="rest").load_table("tables.orders")
        with foreign.transaction() as transaction:
            transaction.remove_properties("bmq.topic")
        left_alone = run(job.command("--available-now"), WAIT_S)
        assert "was not made of a topic; it is left alone" in left_alone.stderr


def test_a_catalog_that_is_away_is_a_sentence(shared_server: Server, tmp_path: Path) -> None:
    uri = f"http://127.0.0.1:{free_port()}"
    done = run(Job(shared_server, tmp_path, uri).command("--available-now"), WAIT_S)
    assert done.returncode == 1
    assert f"bmq: the catalog of type rest at {uri} cannot be used: " in done.stderr
    assert "Traceback" not in done.stderr and "t0p" not in done.stderr


def read_by_the_page(uri: str) -> dict[str, Any]:
    """The recipe of docs/TABLES_READ.md for catalogs, as it stands there; the names that it leaves."""
    page = (REPOSITORY / "docs" / "TABLES_READ.md").read_text()
    (block,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    found: dict[str, Any] = {}
    exec(block.replace("http://CATALOG:8181", uri), found)
    return found
