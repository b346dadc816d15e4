"""Links to other nodes, kept by node id and opened when they are needed.

There is one link for each node and purpose: requests that must not wait behind bulk data (heartbeats, say) have their
own purpose, and so their own connection. A node's address is looked up for each attempt; after failures an attempt
waits a little first, so a caller may simply ask again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final

import structlog

from bmq.aio.backoff import Backoff
from bmq.internode_client.link import Link, LinkClosed, LinkLost, LinkNotEncrypted, LinkTimeout
from bmq.internode_client.link_tls import LinkTls
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import UnsupportedVersion
from bmq.protocol.frames import ReceiveBuffer
from bmq.proxy.stall_watch import StallWatch

_BACKOFF_FIRST_S: Final = 0.02
_BACKOFF_MAX_S: Final = 0.5
_STEADY_S: Final = 1.0
_TOLD_FAILURES: Final = 2  # the first at level info, the second as a warning, later ones not at all
"""A link that did not last this long counts as one more failed attempt."""
_RECEIVE_BUFFER_BYTES: Final = 256 * 1024

_log = structlog.get_logger("bmq.internode_client")


class Links:
    """`address_of(node_id)`: where the node's internal listener is now; None while that is not known.

    `client_id` names this node to the others, and seeds the jitter of the pauses unless a generator is given.
    `stalls`: when it notices that the event loop stood still, all links are closed, and opened anew when needed. `tls`: how
    the next link is to be encrypted; None: not at all.
    """

    def __init__(
        self,
        client_id: str,
        address_of: Callable[[int], tuple[str, int] | None],
        *,
        connect_timeout_s: float = 2.0,
        random: Random | None = None,
        stalls: StallWatch | None = None,
        tls: Callable[[], LinkTls | None] = lambda: None,
    ) -> None:
        self._client_id = client_id
        self._tls = tls
        self._address_of = address_of
        self._connect_timeout_s = connect_timeout_s
        self._random = random or Random(client_id)
        self._stalls = stalls or StallWatch()
        self._stalls.on_stall(self._drop_all)
        self._receive_buffer = ReceiveBuffer(_RECEIVE_BUFFER_BYTES)
        self._kept: dict[tuple[int, str], _Kept] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def ready(self, node_id: int, purpose: str = "") -> Link | None:
        """The link if it is open now."""
        kept = self._kept.get((node_id, purpose))
        return None if kept is None else kept.link

    async def link(self, node_id: int, purpose: str = "") -> Link:
        """An open link; concurrent callers share one attempt to open it.

        Takes at most the pause after earlier failures (0.5 s) and the time limit of connecting. Raises LinkLost.
        """
        if self._is_closed:
            raise LinkLost("the links of this node are closed")
        kept = self._kept.get((node_id, purpose))
        if kept is None:
            kept = self._kept[node_id, purpose] = _Kept(
                Backoff(self._random, first_s=_BACKOFF_FIRST_S, max_s=_BACKOFF_MAX_S)
            )
        if kept.link is not None:
            return kept.link
        if kept.opening is None:
            kept.opening = asyncio.get_running_loop().create_future()
            kept.task = asyncio.create_task(self._open(node_id, purpose, kept, kept.opening))
            self._tasks.add(kept.task)
            kept.task.add_done_callback(self._tasks.discard)
        # All waiting callers share the attempt, so it goes on when one of them is cancelled.
        opened = await asyncio.shield(kept.opening)
        if isinstance(opened, str):
            raise (LinkClosed if kept.is_ended else LinkLost)(opened)
        return opened

    async def call(self, node_id: int, api_key: ApiKey, request: Any, *, timeout_s: float, purpose: str = "") -> Any:
        """Ask over the link for this purpose, opened if need be within the same time limit.

        Raises LinkLost, LinkTimeout, UnsupportedVersion.
        """
        link = self.ready(node_id, purpose)
        if link is None:
            loop = asyncio.get_running_loop()
            deadline_s = loop.time() + timeout_s
            try:
                async with asyncio.timeout(timeout_s):
                    link = await self.link(node_id, purpose)
            except TimeoutError:
                raise LinkTimeout(f"no connection to node {node_id} within {timeout_s:g} s") from None
            timeout_s = max(deadline_s - loop.time(), 0)
        return await link.call(api_key, request, timeout_s=timeout_s)

    def _drop_all(self, stall_s: float) -> None:
        """Close all links: queued requests are too old, and nodes that stood still too drop requests they received."""
        for kept in tuple(self._kept.values()):
            if kept.link is not None:
                kept.link.close()

    def forget(self, node_id: int) -> None:
        """Close the node's links, attempts to open one included: it is gone, or has another address."""
        for key in [key for key in self._kept if key[0] == node_id]:
            self._kept.pop(key).end(f"the links to node {node_id} were closed here")

    async def close(self) -> None:
        """Close all, for good."""
        self._is_closed = True
        links = [kept.link for kept in self._kept.values() if kept.link is not None]
        for node_id in {node_id for node_id, _ in self._kept}:
            self.forget(node_id)
        if self._tasks:
            await asyncio.wait(self._tasks)
        for link in links:
            await link.wait_gone()

    async def _open(self, node_id: int, purpose: str, kept: _Kept, opening: asyncio.Future[Link | str]) -> None:
        """Settles `opening`: the link, or why there is none."""
        try:
            if kept.pause_s:
                await asyncio.sleep(kept.pause_s)
            address = self._address_of(node_id)
            if address is None:
                raise LinkLost(f"the address of node {node_id} is not known")
            link = await self._connect(node_id, purpose, kept, address)
        except (LinkLost, UnsupportedVersion) as error:
            if kept.failure_count < _TOLD_FAILURES:
                # A node that stops in order refuses connections for a moment before it has left the cluster.
                tell = _log.warning if kept.failure_count else _log.info
                tell("link_not_opened", node_id=node_id, purpose=purpose, reason=str(error))
            kept.failed()
            opening.set_result(f"node {node_id}: {error}")
        else:
            kept.opened(link)
            opening.set_result(link)
        finally:
            if not opening.done():
                kept.failed()
                opening.set_result(f"node {node_id}: connecting was given up")

    async def _connect(self, node_id: int, purpose: str, kept: _Kept, address: tuple[str, int]) -> Link:
        """Raises LinkLost, UnsupportedVersion."""
        tls = self._tls()
        try:
            return await self._open_by(address, tls)
        except LinkNotEncrypted as error:
            if tls is None or not tls.falls_back:
                raise
            if not kept.is_told_plain:
                kept.is_told_plain = True
                _log.warning("link_not_encrypted", node_id=node_id, purpose=purpose, reason=str(error))
        return await self._open_by(address, None)

    async def _open_by(self, address: tuple[str, int], tls: LinkTls | None) -> Link:
        return await Link.open(
            *address,
            client_id=self._client_id,
            connect_timeout_s=self._connect_timeout_s,
            receive_buffer=self._receive_buffer,
            stalls=self._stalls,
            tls=tls,
        )


class _Kept:
    """One node's link for one purpose, or the attempt to open it."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self.link: Link | None = None
        self.opening: asyncio.Future[Link | str] | None = None
        self.task: asyncio.Task[None] | None = None
        self.pause_s = 0.0  # before the next attempt
        self.failure_count = 0  # since a link was steady
        self.is_ended = False
        self.is_told_plain = False

    def opened(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        opened_s = loop.time()

        def lost() -> None:
            self.link = None
            if loop.time() - opened_s < _STEADY_S:
                self.pause_s = self._backoff.next_s()
            else:
                self._backoff.reset()
                self.pause_s = 0.0
                self.failure_count = 0

        self.opening = self.task = None
        self.link = link
        link.on_lost(lost)

    def failed(self) -> None:
        self.opening = self.task = None
        self.failure_count += 1
        self.pause_s = self._backoff.next_s()

    def end(self, reason: str) -> None:
        self.is_ended = True
        if self.opening is not None:
            self.opening.set_result(reason)
        if self.task is not None:
            self.task.cancel()
        if self.link is not None:
            self.link.close()
