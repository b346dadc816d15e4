"""The first five minutes of a delayed order cancellation: the commands of docs/QUEUES.md, as they are written there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from testing.patience import Patience
from testing.processes import dying_with_us
from testing.servers import BmqServer, Server

pytestmark = [pytest.mark.campaign("kafka"), pytest.mark.bmq_only, pytest.mark.timeout(120)]

PAGE: Final = Path(__file__).parents[2] / "docs/QUEUES.md"
HEADING: Final = "### The first five minutes of a delayed order cancellation"
ADDRESS: Final = "127.0.0.1:9092"


def blocks() -> list[tuple[str, str]]:
    """(language, text) of the section's blocks, in order."""
    section = PAGE.read_text(encoding="utf-8").partition(HEADING)[2].partition("\n### ")[0]
    return re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def run(language: str, text: str, server: Server, environment: Mapping[str, str]) -> str:
    command = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
    done = subprocess.run(
        dying_with_us([*command, text.replace(ADDRESS, server.bootstrap)]),
        env=environment,
        capture_output=True,
        text=True,
        timeout=Patience(60).limit_s,
        check=False,
    )
    assert done.returncode == 0, (text, done.stdout, done.stderr)
    return done.stdout


def test_the_commands_of_the_page_do_what_it_says(server: Server) -> None:
    assert isinstance(server, BmqServer)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "BMQ_BOOTSTRAP": server.bootstrap,
        "BMQ_REST_URL": f"http://127.0.0.1:{server.rest_port}",
    }
    prepare, orders, look = blocks()
    assert [one[0] for one in (prepare, orders, look)] == ["sh", "python", "sh"]
    run(*prepare, server, environment)
    told = run("python", f'{orders[1]}print(timers["4712"][1])\n', server, environment).splitlines()
    assert told[0] == "4711 is paid"
    shown = run(*look, server, environment)
    assert re.search(r"^pending +\d", shown, re.MULTILINE), shown
    assert shown.endswith("4710 is not paid\n4712 is not paid\n"), shown

    too_late = "! bmq topic timers orders.unpaid --partition 0 --cancel " + told[1]
    assert "has been delivered" in run("sh", f"{too_late} 2>&1", server, environment)
