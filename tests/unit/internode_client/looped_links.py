"""Links in memory: requests go through the codec and the internal handlers of the node they are for, with no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields
from typing import Any, cast

import bmq.internode_server.handlers.controller_apis
import bmq.internode_server.handlers.envelope
import bmq.proxy.handlers
from bmq.internode_client.link import LinkLost, LinkTimeout
from bmq.internode_server.services import InternalServices
from bmq.protocol.apis import INTERNAL_APIS, ApiKey
from bmq.protocol.codec import decode_request, decode_response, encode_request, encode_response, parse_request_header
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import HANDLERS
from bmq.proxy.services import Services

bmq.proxy.handlers.load_all()

Interfere = Callable[[int, ApiKey], Awaitable[None]]
"""(node id, API); called when the work is done and before the answer is given. Raises LinkLost, waits, or does nothing."""


class LoopedLinks:
    """The links of every node to every other. `nodes`: what their internal listeners give to handlers.

    `down`: nodes that cannot be reached. `hung`: nodes that take requests and never answer. `before`, `after`: what happens
    to a request before it is carried out, and after.
    """

    def __init__(self, nodes: Mapping[int, InternalServices]) -> None:
        self.nodes = nodes
        self.down: set[int] = set()
        self.hung: set[int] = set()
        self.before: Interfere | None = None
        self.after: Interfere | None = None
        self.calls: list[tuple[int, ApiKey]] = []
        self.purposes: list[str] = []

    def ready(self, node_id: int, purpose: str = "") -> object | None:
        return None if node_id in self.down else self

    async def link(self, node_id: int, purpose: str = "") -> object:
        await asyncio.sleep(0)
        if node_id in self.down:
            raise LinkLost(f"node {node_id} refuses connections")
        return self

    async def call(self, node_id: int, api_key: ApiKey, request: Any, *, timeout_s: float, purpose: str = "") -> Any:
        await self.link(node_id)
        self.calls.append((node_id, api_key))
        self.purposes.append(purpose)
        version = INTERNAL_APIS[api_key].version_max
        frame = encode_request(api_key, version, 7, "node", request)
        try:
            async with asyncio.timeout(timeout_s):
                if node_id in self.hung:
                    await asyncio.get_running_loop().create_future()
                if self.before is not None:
                    await self.before(node_id, api_key)
                message = decode_request(parse_request_header(frame), frame)
                response = await HANDLERS[api_key](
                    message, RequestContext(version, "node", "10.0.0.9"), self.nodes[node_id]
                )
                if self.after is not None:
                    await self.after(node_id, api_key)
        except TimeoutError:
            raise LinkTimeout(f"node {node_id} has not answered within {timeout_s:g} s") from None
        return decode_response(api_key, version, encode_response(api_key, version, 7, response))[1]

    def lose_answers(self, count: int) -> None:
        """The next answers never arrive, though the work was done."""
        left = [count]

        async def lose(node_id: int, api_key: ApiKey) -> None:
            if left[0]:
                left[0] -= 1
                raise LinkLost(f"node {node_id}: the connection broke")

        self.after = lose


def internal_services(services: Services, **given: Any) -> InternalServices:
    """Those of an internal listener, of which only `given` is used."""
    known = {one.name: getattr(services, one.name) for one in fields(Services)}
    roles = {"leadership": None, "manager": None, "releases": None, "known": None, **given}
    return InternalServices(**cast(Any, {**known, "is_between_nodes": True, **roles}))
