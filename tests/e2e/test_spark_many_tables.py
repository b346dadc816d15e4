"""Many tables that one supervisor keeps while their jobs are killed: the state it tells is true, and each row lands once.

More by variables: BMQ_TABLES=10 BMQ_TABLES_KILLS=20 BMQ_TABLES_MINUTES=20 python -m pytest tests/e2e/test_spark_many_tables.py
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from testing.processes import ManagedProcess, eventually
from testing.servers import BmqServer, bmq_command
from testing.table_topics import SUBMIT_ARGUMENTS, order, orders_form, produce
from tests.e2e.conftest import ServerMaker, create_topic
from tests.support.kept_tables import TellTale, ids, jobs_of
from tests.support.spark import SPARK_ENVIRONMENT

TABLES: Final = int(os.environ.get("BMQ_TABLES", "2"))
KILLS: Final = int(os.environ.get("BMQ_TABLES_KILLS", "2"))
MINUTES: Final = float(os.environ.get("BMQ_TABLES_MINUTES", "1"))
PARTITIONS: Final = 2
RECORDS_AT_ONCE: Final = 50
LOOK_S: Final = 0.5
"""Of this test, between two looks at processes and told states."""
START_WAIT_S, STOP_WAIT_S = 60.0 * TABLES + 240, 30.0 + 10 * TABLES
ENVIRONMENT: Final = {**SPARK_ENVIRONMENT, "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS, "TZ": "UTC"}

pytestmark = [
    pytest.mark.campaign("spark-tables"),
    pytest.mark.timeout(int(600 + 60 * MINUTES + 60 * KILLS + 120 * TABLES)),
]


@pytest.fixture
def server(new_server: ServerMaker) -> BmqServer:
    server = new_server()
    assert isinstance(server, BmqServer)
    server.start()
    return server


def test_states_are_true_and_rows_land_once_while_jobs_are_killed(server: BmqServer, tmp_path: Path) -> None:
    rest = f"http://127.0.0.1:{server.rest_port}"
    names = [f"t{number}" for number in range(TABLES)]
    chance = random.Random(35)
    with httpx.Client(base_url=rest, timeout=30) as client:

        def statuses() -> dict[str, dict[str, Any]]:
            return {name: client.get(f"/v1/tables/{name}/status").json() for name in names}

        for name in names:
            create_topic(server, name, PARTITIONS)
            assert client.post("/v1/tables", json=orders_form(name, name=name)).status_code == 201
        command = [
            *(bmq_command(), "spark", "tables", "--rest", rest, "--bootstrap", server.bootstrap),
            *("--warehouse", str(tmp_path / "warehouse"), "--checkpoints", str(tmp_path / "checkpoints")),
            *("--trigger-s", str(max(1, TABLES)), "--look-s", "0.5"),
        ]
        supervisor = ManagedProcess("supervisor", command, tmp_path / "supervisor.log", ENVIRONMENT)
        supervisor.start()
        try:
            produced = dict.fromkeys(names, 0)

            def produce_some() -> None:
                for name in names:
                    first = produced[name]
                    produce(
                        server.bootstrap, name, [order(first + each) for each in range(RECORDS_AT_ONCE)], PARTITIONS
                    )
                    produced[name] += RECORDS_AT_ONCE

            def all_run() -> bool:
                return all(found["state"] == "running" for found in statuses().values())

            produce_some()
            eventually(all_run, START_WAIT_S, "all tables are running", LOOK_S)
            tale = TellTale()
            kills = 0
            ends_s = time.monotonic() + 60 * MINUTES
            next_kill_s = next_records_s = time.monotonic()
            while (now_s := time.monotonic()) < ends_s or kills < KILLS:
                if now_s >= next_records_s:
                    produce_some()
                    next_records_s = now_s + 5
                jobs = jobs_of(supervisor.pid)
                tale.look(now_s, jobs, told := statuses())
                running = [name for name in names if told[name]["state"] == "running" and name in jobs]
                if now_s >= next_kill_s and kills < KILLS and running:
                    name = chance.choice(running)
                    os.kill(jobs[name], signal.SIGKILL)
                    tale.killed(now_s, name, jobs[name])
                    kills += 1
                    next_kill_s = max(next_kill_s + 60 * MINUTES / KILLS, now_s)
                time.sleep(LOOK_S)  # the pace of the looks, not a wait for anything
            assert kills == KILLS
            assert tale.wrong == [], "\n".join(tale.wrong)

            def all_rows() -> bool:
                found = statuses()
                return all(
                    found[name]["state"] == "running" and found[name]["rows"] == produced[name] for name in names
                )

            eventually(all_rows, START_WAIT_S, "all rows are told", LOOK_S)
            tale.look(time.monotonic(), jobs_of(supervisor.pid), statuses())
            assert (tale.wrong, tale.restarts) == ([], KILLS)
            for name in names:
                assert ids(tmp_path / "warehouse", name) == list(range(produced[name])), name
            assert supervisor.stop(STOP_WAIT_S) == 0, f"{supervisor}"
            assert {found["state"] for found in statuses().values()} == {"stopped"}
        finally:
            supervisor.kill()
    assert "Traceback" not in supervisor.log_of_this_run()
    print(f"{TABLES} tables, {KILLS} kills, {tale.looks} looks, {sum(produced.values())} rows: 0 wrong, lost, doubled")
