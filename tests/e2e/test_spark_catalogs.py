"""Tables in a catalog that is a service, Iceberg's own REST server or Hive's metastore: commits, kills within them, and readers."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
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
from tests.support.iceberg_catalogs import CatalogService, hive_catalog, rest_catalog
from tests.support.iceberg_contract import CHANGES_CONTRACT, CONTRACT, PARTS_CONTRACT
from tests.support.metastore_gate import MetastoreGate, metastore_gate

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.timeout(1_200)]

ALL: Final = {check.__name__ for check in (*CONTRACT, *CHANGES_CONTRACT, *PARTS_CONTRACT)}
ORDERS: Final = 400
WAIT_S: Final = 240.0


def failures(directory: Path, options: Mapping[str, str]) -> dict[str, str]:
    done = run(
        [sys.executable, "-m", "tests.e2e.spark_iceberg_contract", str(directory)]
        + [f"{key}={value}" for key, value in options.items()],
        800,
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


CATALOGS: Final = {"rest": rest_catalog, "hive": hive_catalog}
GATES: Final[Mapping[str, Callable[[str], AbstractContextManager[CommitGate | MetastoreGate]]]] = {
    "rest": commit_gate,
    "hive": metastore_gate,
}
kinds = pytest.mark.parametrize("kind", CATALOGS)


def catalog_of(kind: str, directory: Path) -> AbstractContextManager[CatalogService]:
    return CATALOGS[kind](directory)


@kinds
def test_contract_in_a_service(kind: str, tmp_path: Path) -> None:
    """Others come between a commit and the catalog."""
    with catalog_of(kind, tmp_path) as catalog:
        found = failures(tmp_path, catalog.options)
    assert {name: words for name, words in found.items() if words} == {}
    assert found.keys() == ALL | {"lost_answer"}


class Job:
    """The job of a table of orders in a catalog that is a service."""

    def __init__(self, server: Server, directory: Path, options: Mapping[str, str]) -> None:
        self.directory = directory
        self.topic = unique_name("orders")
        create_topic(server, self.topic, 2)
        produce(server.bootstrap, self.topic, [order(number) for number in range(ORDERS)])
        (directory / "definition.json").write_text(json.dumps(orders_form(self.topic)))
        (directory / "catalog.options").write_text("".join(f"{key}={value}\n" for key, value in options.items()))
        self.bootstrap = server.bootstrap

    def command(self, *options: str) -> list[str]:
        return [
            *(sys.executable, "-m", "bmq.spark.tables", "--definition", str(self.directory / "definition.json")),
            *("--bootstrap", self.bootstrap, "--checkpoint", str(self.directory / "checkpoint")),
            *("--catalog-option", f"@{self.directory}/catalog.options", "--max-offsets-per-trigger", "50", *options),
        ]

    def killed_at_a_commit(self, gate: CommitGate | MetastoreGate, *, is_committed: bool) -> None:
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


@kinds
def test_a_job_that_is_killed_within_its_commits(kind: str, shared_server: Server, tmp_path: Path) -> None:
    """Before the catalog has the commit, and after it, without the answer; then it holds Hive's lock. pyiceberg reads each order once."""
    with catalog_of(kind, tmp_path / "service") as catalog, GATES[kind](catalog.options["uri"]) as gate:
        job = Job(shared_server, tmp_path, {**catalog.options, "uri": gate.uri})
        job.killed_at_a_commit(gate, is_committed=False)
        job.killed_at_a_commit(gate, is_committed=True)
        done = run(job.command("--available-now"), WAIT_S)
        assert done.returncode == 0, done.stderr[-8_000:]
        found = read_by_the_page(kind, catalog.options["uri"])
        assert sorted(found["ids"]) == list(range(ORDERS))
        assert found["unwritten"] == {"0": ORDERS // 2, "1": ORDERS // 2}
        refused = run(job.command("--available-now", "--checkpoint", str(tmp_path / "other")), WAIT_S)
        assert refused.returncode == 2
        assert "is written by the job with checkpoint" in refused.stderr
        # As pyiceberg wants it told of Hive 2.
        others = load_catalog("bmq", uri=catalog.options["uri"], type=kind, **{"hive.hive2-compatible": "true"})
        foreign = others.load_table("tables.orders")
        with foreign.transaction() as transaction:
            transaction.remove_properties("bmq.topic")
        left_alone = run(job.command("--available-now"), WAIT_S)
        assert "was not made of a topic; it is left alone" in left_alone.stderr


@pytest.mark.parametrize(
    ("kind", "uri", "more"),
    [("rest", "http://127.0.0.1", {"token": "t0p"}), ("hive", "thrift://127.0.0.1", {"warehouse": "file:/nowhere"})],
)
def test_a_catalog_that_is_away_is_a_sentence(
    kind: str, uri: str, more: dict[str, str], shared_server: Server, tmp_path: Path
) -> None:
    options = {"type": kind, "uri": f"{uri}:{free_port()}", **more}
    says_it_is_away(Job(shared_server, tmp_path, options), options)


def test_a_metastore_that_says_nothing_is_a_sentence(shared_server: Server, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = {
            "type": "hive",
            "uri": f"thrift://127.0.0.1:{silent.getsockname()[1]}",
            "warehouse": "file:/nowhere",
            "hadoop.hive.metastore.client.socket.timeout": "2s",
        }
        says_it_is_away(Job(shared_server, tmp_path, options), options)


def says_it_is_away(job: Job, options: Mapping[str, str]) -> None:
    done = run(job.command("--available-now"), WAIT_S)
    assert done.returncode == 1
    assert f"bmq: the catalog of type {options['type']} at {options['uri']} cannot be used: " in done.stderr
    sentence = next(line for line in done.stderr.splitlines() if line.startswith("bmq: "))
    print(sentence)
    assert "\nTraceback" not in done.stderr and "t0p" not in done.stderr


def read_by_the_page(kind: str, uri: str) -> dict[str, Any]:
    """The recipe of docs/TABLES_READ.md for catalogs, as it stands there; the names that it leaves."""
    page = (REPOSITORY / "docs" / "TABLES_READ.md").read_text()
    (block,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    found: dict[str, Any] = {}
    exec(block.replace('type="rest", uri="http://CATALOG:8181"', f'type="{kind}", uri="{uri}"'), found)
    return found
