"""Channels of one server: the command changes them, and agents that wait on open connections have each change."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import httpx
import pytest

from bmq.channels.channel_set import ChannelSet, parse_channel_set
from testing.patience import Patience
from testing.processes import eventually
from testing.servers import BmqServer, Server, bmq_command
from tests.e2e.conftest import TopicMaker

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(180)]

AGENTS: Final = 20
WAIT_MS: Final = 60_000
ASKED_WAIT_S: Final = 30.0
ANSWER_WAIT_S: Final = 20.0
"""Shorter than the agents' own wait: an answer in this time was caused by the change."""


@contextmanager
def databus(server: BmqServer) -> Iterator[Any]:
    """Runs `bmq databus … --json`. The channel `clicks` is deleted at the end."""

    def run(*arguments: str) -> Any:
        command = [bmq_command(), "databus", *arguments, "--rest", f"127.0.0.1:{server.rest_port}", "--json"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=Patience(60).limit_s, check=False)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    try:
        yield run
    finally:
        run("channel", "delete", "clicks")


def test_agents_that_wait_have_a_change_and_do_not_hold_up_a_stop(server: Server, make_topic: TopicMaker) -> None:
    assert isinstance(server, BmqServer)
    topic = make_topic()

    def poll(number: int, after: int) -> httpx.Response:
        query: dict[str, str | int] = {
            "after": after,
            "applied": after,
            "wait_ms": WAIT_MS,
            "agent": f"host-{number:02d}",
        }
        url = f"http://127.0.0.1:{server.rest_port}/v1/channels/changes"
        return httpx.get(url, params=query, timeout=Patience(WAIT_MS / 1000 + 30).limit_s)

    def told(response: httpx.Response) -> ChannelSet:
        assert response.status_code == 200, response.text
        return parse_channel_set(response.json())

    with databus(server) as run, ThreadPoolExecutor(AGENTS) as agents:
        made = run("channel", "create", "clicks", "--topic", topic, "--linger-ms", "5")

        def waiting_with(version: int) -> int:
            status, page = server.get("/v1/channels/agents")
            listed = json.loads(page)["agents"] if status == 200 else []
            return sum(each["is_waiting"] and each["applied_version"] == version for each in listed)

        polls = [agents.submit(poll, number, made["version"]) for number in range(AGENTS)]
        eventually(lambda: waiting_with(made["version"]) == AGENTS, ASKED_WAIT_S, "all agents wait")
        plan = run("channel", "alter", "clicks", "--linger-ms", "50", "--dry-run")
        assert plan["changes"] == ["linger_ms is 50; it was 5"]
        assert not any(one.done() for one in polls)
        changed = run("channel", "alter", "clicks", "--linger-ms", "50")
        sets = [told(one.result(Patience(ANSWER_WAIT_S).limit_s)) for one in polls]
        assert {each.version for each in sets} == {changed["version"]} == {made["version"] + 1}
        assert {each.channels["clicks"].linger_ms for each in sets} == {50}

        waiting = agents.submit(poll, 0, changed["version"])
        eventually(lambda: waiting_with(changed["version"]) == 1, ASKED_WAIT_S, "an agent waits")
        assert len(run("agents")["agents"]) == AGENTS
        server.stop()
        assert told(waiting.result(Patience(ANSWER_WAIT_S).limit_s)).version == changed["version"]
        server.start()
        shown = run("channel", "show", "clicks")
        assert (shown["version"], shown["channel"]["linger_ms"]) == (changed["version"], 50)
        assert waiting_with(changed["version"]) == 0
