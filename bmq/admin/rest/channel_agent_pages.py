"""For agents of Databus: all channels, as soon as one changes. Any node answers, and lists the agents that asked it."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from bmq.admin.channel_watch import ChannelWatch
from bmq.admin.rest.channel_views import AgentPage, ChannelSetView, agent_view
from bmq.admin.rest.problems import ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.channels.channel_set import channel_set_to_json
from bmq.channels.stored import stored_set
from bmq.metadata.image import MetadataImage

WAIT_MS_MAX: Final = 60_000
WAITING_MAX: Final = 500
"""Requests that wait for a change at one node: half of the connections that its REST address has."""
AGENTS_SHOWN_MAX: Final = 10_000
_INT64_MAX: Final = 2**63 - 1
_AGENT: Final = "^[a-zA-Z0-9._:@-]{1,200}$"


def channel_agent_pages(sources: RestSources) -> APIRouter:
    """Include them before the pages of single channels, whose paths match theirs."""
    pages = APIRouter()
    encoded = _EncodedSet()

    @pages.get(
        "/v1/channels/changes",
        responses={200: {"model": ChannelSetView}, **errors(422, 503)},
    )
    async def changes(
        request: Request,
        after: Annotated[int, Query(ge=-1, le=_INT64_MAX, description="The `version` that is known already")] = -1,
        wait_ms: Annotated[int, Query(ge=0, le=WAIT_MS_MAX, description="How long to wait for a change")] = 0,
        agent: Annotated[str | None, Query(pattern=_AGENT, max_length=200, description="Id of the agent")] = None,
        applied: Annotated[
            int | None, Query(ge=0, le=_INT64_MAX, description="The version by which the agent treats records now")
        ] = None,
    ) -> Response:
        """All channels as soon as their version is past `after`, or the wait is over (a long poll), for agents."""
        watch = sources.channel_watch()
        if watch.is_closed:
            raise ProblemError(503, "this node stops; ask another one")
        if not sources.is_ready():  # the metadata may not be here yet, and no channels is what an agent would believe
            raise ProblemError(503, "this node is not ready; ask another one")
        if wait_ms and watch.waiting_count >= WAITING_MAX:
            raise ProblemError(503, f"{WAITING_MAX} agents wait at this node already; ask another one")
        host = "unknown" if request.client is None else request.client.host
        if agent is not None:
            watch.agents.asks(agent, host, applied, _now_ms())
        try:
            await _changed(sources, watch, request, after, wait_ms / 1000)
        finally:
            if agent is not None:
                watch.agents.ended(agent, _now_ms())
        return Response(encoded.of(sources.image()), media_type="application/json")

    @pages.get("/v1/channels/agents", responses=errors(422))
    async def agent_list(
        after: Annotated[str, Query(pattern="^[a-zA-Z0-9._:@-]{0,200}$", max_length=200)] = "",
        limit: Annotated[int, Query(ge=1, le=AGENTS_SHOWN_MAX)] = 1_000,
    ) -> AgentPage:
        """Agents that asked this node for changes, in the order of their ids, page by page. Other nodes know others."""
        agents, now_ms = sources.channel_watch().agents, _now_ms()
        found = agents.listed(after, limit + 1, now_ms)
        return AgentPage(
            node_id=sources.node_id,
            version=sources.image().channels_version,
            count=len(agents),
            agents=[agent_view(each, now_ms) for each in found[:limit]],
            next_after=found[limit - 1].agent_id if len(found) > limit else None,
        )

    return pages


class _EncodedSet:
    """The channels as JSON in UTF-8, made once per change: hundreds of agents get the same bytes."""

    def __init__(self) -> None:
        self._made_of: tuple[Any, int, str] | None = None
        self._data = b""

    def of(self, image: MetadataImage) -> bytes:
        made_of = (image.channels, image.channels_version, image.cluster_id)
        if self._made_of is None or self._made_of[0] is not made_of[0] or self._made_of[1:] != made_of[1:]:
            known = channel_set_to_json(stored_set(image.channels, image.channels_version))
            self._data = json.dumps({"cluster_id": image.cluster_id, **known}, ensure_ascii=False).encode()
            self._made_of = made_of
        return self._data


async def _changed(sources: RestSources, watch: ChannelWatch, request: Request, after: int, timeout_s: float) -> None:
    """Wait until the version is past `after`, the time is over, the client is gone, or this process stops."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    if sources.image().channels_version > after or timeout_s <= 0:
        return
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        while not gone.done() and not watch.is_closed and (left_s := deadline_s - loop.time()) > 0:
            with watch.next_change() as change:
                if sources.image().channels_version > after:
                    return
                await asyncio.wait({change, gone}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)
