"""A coordinator whose process stood still expires nobody for heartbeats that it has not read (rule 22)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.process import Process
from tests.unit.coordinator.cluster import Cluster, request_context

pytestmark = pytest.mark.unit

SESSION_MS = 10_000


def told(story: Callable[[Cluster, Process], Awaitable[None]]) -> None:
    """Run a story beside a coordinator in a process of its own."""
    loop = VirtualTimeLoop()
    process = Process(loop, "coordinator")

    async def made() -> Cluster:
        return Cluster()

    async def main() -> None:
        await story(await process.spawn(made()), process)

    loop.run_until_complete(main())
    assert loop.failures == []
    loop.discard()


async def beat(cluster: Cluster, member_id: str) -> int:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    return (await cluster.coordinator.classic.heartbeat(request, request_context(4))).error_code


async def stop(process: Process, seconds: float) -> None:
    process.pause()
    await asyncio.sleep(seconds)
    process.resume()


def test_a_session_that_ended_during_a_stop_begins_anew() -> None:
    async def story(cluster: Cluster, process: Process) -> None:
        member_id = await process.spawn(cluster.stable(session_ms=SESSION_MS))
        await stop(process, 60)
        await asyncio.sleep(SESSION_MS / 1000 - 1)
        assert await process.spawn(beat(cluster, member_id)) == 0
        await asyncio.sleep(SESSION_MS / 1000 + 1)
        assert await process.spawn(beat(cluster, member_id)) == ErrorCode.UNKNOWN_MEMBER_ID, "silent afterwards"

    told(story)


def test_a_session_that_would_end_soon_after_a_stop_begins_anew() -> None:
    """What members sent was dropped: they have to find the coordinator and beat again."""

    async def story(cluster: Cluster, process: Process) -> None:
        member_id = await process.spawn(cluster.stable(session_ms=SESSION_MS))
        await stop(process, SESSION_MS / 1000 - 0.5)

        async def after_stall() -> None:
            cluster.coordinator.after_stall()

        await process.spawn(after_stall())
        await asyncio.sleep(SESSION_MS / 1000 - 1)
        assert await process.spawn(beat(cluster, member_id)) == 0

    told(story)


def test_a_session_still_ends_on_time() -> None:
    async def story(cluster: Cluster, process: Process) -> None:
        member_id = await process.spawn(cluster.stable(session_ms=SESSION_MS))
        await asyncio.sleep(SESSION_MS / 1000 + 0.1)
        assert await process.spawn(beat(cluster, member_id)) == ErrorCode.UNKNOWN_MEMBER_ID

    told(story)


def test_a_rebalance_waits_anew_for_members_whose_joins_were_dropped() -> None:
    async def story(cluster: Cluster, process: Process) -> None:
        member_id = await process.spawn(cluster.stable(session_ms=SESSION_MS))
        newcomer = process.spawn(cluster.join(session_ms=SESSION_MS))
        await asyncio.sleep(1)
        await stop(process, 120)
        await asyncio.sleep(1)
        assert not newcomer.done(), "the first member is waited for"
        assert await process.spawn(beat(cluster, member_id)) == ErrorCode.REBALANCE_IN_PROGRESS
        newcomer.cancel()

    told(story)
