"""How long a change of a channel takes until each of many agents acts by it."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final

from testing.processes import eventually
from testing.servers import BmqServer

AGENTS: Final = 20
CHANGES: Final = 20
CHANGE_WAIT_S: Final = 30.0


def put_channel(server: BmqServer, channel: str, topic: str, linger_ms: int) -> int:
    """Make or change it. Returns the version of all channels since."""
    body = json.dumps({"name": channel, "topic": topic, "linger_ms": linger_ms}).encode()
    url = f"http://127.0.0.1:{server.rest_port}/v1/channels/{channel}"
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers, method="PUT")
    with urllib.request.urlopen(request, timeout=30) as response:
        response.read()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.rest_port}/v1/channels", timeout=30) as response:
        version: int = json.load(response)["version"]
    return version


def shown_version(http: str) -> int:
    """Of the channels that an agent uses."""
    with urllib.request.urlopen(f"http://{http}/v1/status", timeout=10) as response:
        version: int = json.load(response)["channels_version"]
    return version


def measured_changes(
    server: BmqServer, channel: str, topic: str, start_agent: Callable[[str, ExitStack], str]
) -> dict[str, Any]:
    """Seconds from the request of each change until the last agent shows it. `start_agent`: gives the HTTP door of a new one."""
    with ExitStack() as stack, ThreadPoolExecutor(AGENTS) as threads:
        doors = [start_agent(f"agent-{number}", stack) for number in range(AGENTS)]
        known = put_channel(server, channel, topic, 500)

        def wait_for(door: str, version: int) -> float:
            eventually(lambda: shown_version(door) >= version, CHANGE_WAIT_S, "the change", 0.01)
            return time.monotonic()

        list(threads.map(wait_for, doors, [known] * AGENTS))
        seconds = []
        for number in range(CHANGES):
            began_s = time.monotonic()
            version = put_channel(server, channel, topic, 400 + number)
            seconds.append(max(threads.map(wait_for, doors, [version] * AGENTS)) - began_s)
    return {"agents": AGENTS, "seconds": [round(one, 4) for one in seconds], "longest_s": round(max(seconds), 4)}
