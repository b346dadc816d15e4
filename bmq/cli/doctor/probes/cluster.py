"""What the nodes of the cluster tell at their REST addresses: health, release, time of day. Each is asked for itself."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import field
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

from bmq.cli.doctor.machine import Machine
from bmq.cli.doctor.probes.names import NameInUse
from bmq.cli.doctor.verdicts.clock import OtherClock
from bmq.cli.doctor.verdicts.nodes import SeenNode
from bmq.dataclass import dataclass
from bmq.rest_client.client import Page, RestClient, why_no_connection
from bmq.rest_client.login import LoginUnusable, RestLogin
from bmq.server.settings import split_address

_NAMED_AS_PROBLEMS: Final = "partitions_offline"
"""A reason of the health; `problems` have its partitions one by one."""
ANSWER_MAX_S: Final = 3.0
NODES_MAX: Final = 200
NODES_AT_ONCE_MAX: Final = 16
PAGE_BYTES_MAX: Final = 4 << 20
VERSION: Final = re.compile(r'^bmq_build_info\{[^}]*\bversion="([^"]{1,100})"', re.MULTILINE)
_DATE_STEP_MS: Final = 2_000
"""A Date header is cut to a second, and a server makes a new one each second."""
_REFUSED: Final = frozenset({httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN})


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """`clocks`: of nodes other than this one as well as of this one. `names`: hosts by which nodes are told."""

    nodes: tuple[SeenNode, ...] = ()
    clocks: tuple[OtherClock, ...] = ()
    names: tuple[NameInUse, ...] = ()
    is_asked: bool = False


@dataclass(slots=True)
class _Asked:
    page: Page | None = None
    trouble: str = ""
    before_ms: float = 0.0
    after_ms: float = 0.0
    is_silent: bool = field(default=False)


class NodeAsker:
    """Asks nodes with one login. `transport`: in place of sockets, for tests."""

    def __init__(self, login: RestLogin, machine: Machine, transport: httpx.BaseTransport | None = None) -> None:
        self._login = login
        self._machine = machine
        self._transport = transport
        self._room = asyncio.Semaphore(NODES_AT_ONCE_MAX)

    async def cluster(self, url: str, *, is_named: bool) -> SeenCluster:
        """The cluster of the node at `url`. `is_named`: the user gave the address, so silence there is a finding."""
        first = await self._page(url, "/v1/cluster")
        if first.page is None:
            if first.is_silent and not is_named:
                return SeenCluster()
            return SeenCluster((SeenNode(f"the node at {url}", first.trouble),), is_asked=True)
        try:
            cluster = json.loads(first.page.content)
            nodes = list(cluster["nodes"])[:NODES_MAX]
            scheme, _, asked_address = url.rstrip("/").partition("://")
            if len(nodes) == 1 and not nodes[0]["rest"]:
                nodes[0]["rest"] = asked_address  # a server that is all of its cluster tells no address
            asked = [(f"node {each['node_id']}", each) for each in nodes]
            seen = await asyncio.gather(*(self._node(name, each, scheme) for name, each in asked))
            names = [name for (title, each) in asked for name in _names_of(title, each)]
        except (ValueError, KeyError, TypeError, AttributeError):
            trouble = f"{url}/v1/cluster answered {first.page.status}, and not as a node of bmq does"
            return SeenCluster((SeenNode(f"the node at {url}", trouble),), is_asked=True)
        clocks = tuple(clock for _, clock in seen if clock is not None)
        return SeenCluster(tuple(node for node, _ in seen if node is not None), clocks, tuple(names), is_asked=True)

    async def _node(self, name: str, told: Any, scheme: str) -> tuple[SeenNode | None, OtherClock | None]:
        if not told["rest"]:
            return None, None
        url = f"{scheme}://{told['rest']}"
        async with self._room:
            health = await self._page(url, "/v1/health")
            if health.page is None:
                return SeenNode(f"{name} at {told['rest']}", health.trouble), None
            metrics = await self._page(url, "/metrics")
        document = json.loads(health.page.content)
        version = None if metrics.page is None else VERSION.search(metrics.page.content.decode(errors="replace"))
        problems, why = document.get("problems", []), document.get("why", [])
        return (
            SeenNode(
                f"{name} at {told['rest']}",
                is_ready=document["ready"] is True,
                problems=tuple(str(problem) for problem in problems),
                reasons=tuple(
                    (str(one["what"]), str(one["what_to_do"]))
                    for one in why
                    if one["severity"] == "error" and one["code"] != _NAMED_AS_PROBLEMS
                ),
                version=None if version is None else version[1],
            ),
            _clock_of(name, health),
        )

    async def _page(self, url: str, path: str) -> _Asked:
        asked = _Asked()

        def ask() -> None:
            client = RestClient(url, self._login, timeout=ANSWER_MAX_S, transport=self._transport)
            try:
                asked.before_ms = self._machine.now_ms()
                page = client.page(path, bytes_max=PAGE_BYTES_MAX)
                asked.after_ms = self._machine.now_ms()
            finally:
                client.close()
            if page.status in _REFUSED:
                asked.trouble = f"{url}{path} answered {page.status}: give a login (--rest-user, --rest-token-file)"
            elif page.status >= httpx.codes.INTERNAL_SERVER_ERROR and path != "/v1/health":
                asked.trouble = f"{url}{path} answered {page.status}"
            else:
                asked.page = page

        try:
            async with asyncio.timeout(2 * ANSWER_MAX_S):
                await asyncio.to_thread(ask)
        except (TimeoutError, httpx.TimeoutException):
            asked.page, asked.trouble = None, f"{url} did not answer within {ANSWER_MAX_S:g} s"
        except httpx.ConnectError as error:
            why = why_no_connection(error)
            asked.is_silent = why is None
            asked.trouble = f"{url} cannot be asked: {why or error}"
        except (httpx.HTTPError, LoginUnusable) as error:
            asked.trouble = f"{url} cannot be asked: {error or type(error).__name__}"
        return asked


def _clock_of(name: str, asked: _Asked) -> OtherClock | None:
    """How far the clock of a node is ahead of ours, by the header Date of its answer."""
    date = "" if asked.page is None else asked.page.headers.get("date", "")
    try:
        told_ms = parsedate_to_datetime(date).timestamp() * 1000
    except (ValueError, TypeError, OverflowError):
        return None
    return OtherClock(name, told_ms - asked.after_ms, told_ms + _DATE_STEP_MS - asked.before_ms)


def _names_of(name: str, told: Any) -> list[NameInUse]:
    addresses = [("clients", told["host"])]
    addresses += [(what, split_address(told[what])[0]) for what in ("internal", "rest") if told[what]]
    found = [NameInUse(host, f"the address of {name} for {_READERS[what]}") for what, host in addresses if host]
    return list({each.name: each for each in reversed(found)}.values())


_READERS: Final = {"clients": "clients", "internal": "other nodes", "rest": "operators"}
