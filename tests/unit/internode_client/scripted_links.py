"""Links whose answers a test gives: one function per API, called with (node id, request)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bmq.internode_client.link import LinkLost, LinkTimeout
from bmq.protocol.apis import ApiKey

Answer = Callable[[int, Any], Awaitable[Any]]


class ScriptedLink:
    def __init__(self, links: ScriptedLinks, node_id: int) -> None:
        self._links = links
        self._node_id = node_id

    def close(self) -> None:
        self._links.closed += 1

    def on_lost(self, lost: Callable[[], None]) -> None:
        self._links.lost_callbacks.append(lost)

    async def call(self, api_key: ApiKey, request: Any, *, timeout_s: float) -> Any:
        return await self._links.call(self._node_id, api_key, request, timeout_s=timeout_s)


class ScriptedLinks:
    """`down`: node ids that cannot be reached. `calls`: everything asked, in order."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = {ApiKey[name]: answer for name, answer in answers.items()}
        self.down: set[int] = set()
        self.calls: list[tuple[int, ApiKey, Any]] = []
        self.closed = 0
        self._broken: dict[int, asyncio.Event] = {}
        self.lost_callbacks: list[Callable[[], None]] = []

    async def link(self, node_id: int, purpose: str = "") -> ScriptedLink:
        if node_id in self.down:
            raise LinkLost(f"node {node_id} refuses connections")
        return ScriptedLink(self, node_id)

    async def call(self, node_id: int, api_key: ApiKey, request: Any, *, timeout_s: float, purpose: str = "") -> Any:
        self.calls.append((node_id, api_key, request))
        if node_id in self.down:
            raise LinkLost(f"node {node_id} refuses connections")
        broken = self._broken.setdefault(node_id, asyncio.Event())
        answer = asyncio.ensure_future(self.answers[api_key](node_id, request))
        breaking = asyncio.ensure_future(broken.wait())
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.wait({answer, breaking}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise LinkLost(f"node {node_id}: the connection broke")
            return answer.result()
        except TimeoutError:
            raise LinkTimeout(f"node {node_id} did not answer within {timeout_s} s") from None
        finally:
            answer.cancel()
            breaking.cancel()
            await asyncio.wait({answer, breaking})

    def break_waiting(self, node_id: int) -> None:
        """Whoever waits for this node's answer hears that the connection broke."""
        self._broken.pop(node_id, asyncio.Event()).set()

    def asked(self, api_key: ApiKey) -> list[Any]:
        return [request for _, key, request in self.calls if key is api_key]
