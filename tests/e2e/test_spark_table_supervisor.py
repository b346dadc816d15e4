"""`bmq spark tables` keeps the tables of a cluster: it survives kills of its jobs, tells the truth, and leaves no process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from testing.processes import ManagedProcess, eventually
from testing.servers import BmqServer, bmq_command
from testing.table_topics import SUBMIT_ARGUMENTS, order, orders_form, produce
from tests.e2e.conftest import create_topic
from tests.support.kept_tables import ids, jobs_of
from tests.support.spark import SPARK_ENVIRONMENT

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.timeout(1_500)]

RECORDS, PARTITIONS = 200, 2
START_WAIT_S, STATE_WAIT_S, STOP_WAIT_S = 300.0, 300.0, 90.0
ENVIRONMENT = {**SPARK_ENVIRONMENT, "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS, "TZ": "UTC"}


def group_of(pid: int) -> list[int]:
    """Processes of the group, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            state, _, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if group == str(pid) and state != "Z":
            found.append(int(entry.name))
    return found


@pytest.fixture
def server(tmp_path: Path) -> Any:
    server = BmqServer(tmp_path / "server")
    server.start()
    yield server
    server.close()


def test_tables_are_kept_through_kills_and_left_in_order(server: BmqServer, tmp_path: Path) -> None:
    rest = f"http://127.0.0.1:{server.rest_port}"
    warehouse = tmp_path / "warehouse"
    with httpx.Client(base_url=rest, timeout=30) as client:

        def make(name: str) -> None:
            create_topic(server, name, PARTITIONS)
            assert client.post("/v1/tables", json=orders_form(name, name=name)).status_code == 201

        def status(name: str) -> Any:
            return client.get(f"/v1/tables/{name}/status").json()

        def becomes(name: str, is_so: Callable[[Any], bool], what: str) -> Any:
            return eventually(
                lambda: found if is_so(found := status(name)) else None, STATE_WAIT_S, f"{name} is {what}", 0.2
            )

        def has(name: str, count: int) -> None:
            becomes(
                name, lambda found: found["state"] == "running" and found["rows"] == count, f"running, {count} rows"
            )

        for name in ("first", "second"):
            make(name)
            produce(server.bootstrap, name, [order(number) for number in range(RECORDS)], PARTITIONS)
        command = [
            *(bmq_command(), "spark", "tables", "--rest", rest, "--bootstrap", server.bootstrap),
            *("--warehouse", str(warehouse), "--checkpoints", str(tmp_path / "checkpoints")),
            *("--trigger-s", "1", "--look-s", "0.5"),
        ]
        supervisor = ManagedProcess("supervisor", command, tmp_path / "supervisor.log", ENVIRONMENT)
        supervisor.start()
        try:
            assert becomes("first", lambda found: found["state"] is not None, "told")["state"] == "starting"
            has("first", RECORDS)
            has("second", RECORDS)
            jobs = jobs_of(supervisor.pid)
            assert jobs.keys() == {"first", "second"}
            assert len(group_of(jobs["first"])) >= 2, "the JVM is of the job's group"

            os.kill(jobs["first"], signal.SIGKILL)
            told = becomes("first", lambda found: found["state"] != "running", "not running")
            if told["state"] == "failed":
                assert told["error"].startswith("the job was killed by SIGKILL; it is started again")
            supervisor.wait_for_line(r"^first: failed: the job was killed by SIGKILL; again in 1 s$", STATE_WAIT_S)
            eventually(lambda: not group_of(jobs["first"]), STATE_WAIT_S, "nothing of the killed job is left")
            assert status("second")["state"] == "running"
            produce(server.bootstrap, "first", [order(RECORDS + number) for number in range(RECORDS)], PARTITIONS)
            has("first", 2 * RECORDS)
            assert ids(warehouse, "first") == list(range(2 * RECORDS))

            assert client.delete("/v1/tables/second").is_success
            supervisor.wait_for_line(r"^second: dropped$", STATE_WAIT_S)
            assert not group_of(jobs["second"])

            again = jobs_of(supervisor.pid)
            assert again.keys() == {"first"} and again["first"] != jobs["first"]
            assert supervisor.stop(STOP_WAIT_S) == 0, f"{supervisor}"
            assert not group_of(again["first"])
            assert (status("first")["state"], status("first")["error"]) == ("stopped", None)
            assert ids(warehouse, "second") == list(range(RECORDS)), "a dropped table keeps its rows"

            supervisor.start()
            produce(server.bootstrap, "first", [order(2 * RECORDS + each) for each in range(RECORDS)], PARTITIONS)
            has("first", 3 * RECORDS)
            orphan = jobs_of(supervisor.pid)["first"]
            supervisor.kill()
            eventually(lambda: not group_of(orphan), STOP_WAIT_S, "a job ends with its supervisor")
            assert status("first")["state"] == "stopped"
            assert ids(warehouse, "first") == list(range(3 * RECORDS))
        finally:
            supervisor.kill()
    assert "Traceback" not in supervisor.log_of_this_run()
