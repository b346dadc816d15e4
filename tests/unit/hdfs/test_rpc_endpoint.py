"""Connecting again: quietly when the server was idle, once for all who wait, never for longer than a caller has time."""

from __future__ import annotations

import asyncio

import pytest

from bmq.hdfs.authentication import SASL_NEGOTIATION, Authentication, Negotiation, SimpleAuthentication
from bmq.hdfs.errors import CallTimedOut, ConnectionLost
from bmq.hdfs.proto.namenode_pb2 import DeleteRequest, DeleteResponse
from bmq.hdfs.proto.rpc_pb2 import UserInformation
from bmq.hdfs.rpc_endpoint import Call, Endpoint
from bmq.log.store import StorageUnavailable
from tests.fakes.hadoop_ipc import ReceivedCall, ScriptedServer
from tests.fakes.loop_time import LoopTime

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20), pytest.mark.usefixtures("loop_time")]

LONG_S = 10.0


def endpoint_of(
    server: ScriptedServer, *, silence_max_s: float = LONG_S, authentication: Authentication | None = None
) -> Endpoint:
    return Endpoint(
        server.address,
        "a.b.ClientProtocol",
        authentication or SimpleAuthentication("ann"),
        client_id=bytes(16),
        connect_timeout_s=LONG_S,
        silence_max_s=silence_max_s,
    )


def call_of(call_id: int) -> Call[DeleteResponse]:
    return Call(call_id, "delete", DeleteRequest(src="/a", recursive=False), DeleteResponse)


def done(call: ReceivedCall) -> None:
    call.answer(DeleteResponse(result=True))


class Gate:
    """Authentication that takes as long as the test wants."""

    first_byte = SASL_NEGOTIATION
    user_information = UserInformation(effective_user="ann")

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.entered_count = 0

    async def negotiate(self, negotiation: Negotiation) -> None:
        self.entered_count += 1
        await self.opened.wait()


async def test_one_connection_serves_all_who_come_at_once() -> None:
    async with ScriptedServer(done) as server:
        endpoint = endpoint_of(server)
        await asyncio.gather(*(endpoint.send(call_of(call_id), timeout_s=LONG_S) for call_id in range(50)))
        assert (len(server.peers), len(server.calls)) == (1, 50)
        assert endpoint.is_connected
        assert endpoint.is_idle
        endpoint.close()


async def test_a_connection_closed_while_idle_is_made_again_quietly() -> None:
    async with ScriptedServer(done) as server:
        endpoint = endpoint_of(server)
        await endpoint.send(call_of(0), timeout_s=LONG_S)
        server.peers[0].drop()
        await server.peers[0].closed.wait()
        assert (await endpoint.send(call_of(1), timeout_s=LONG_S)).result
        assert len(server.peers) == 2
        endpoint.close()


async def test_a_call_caught_by_the_closing_goes_out_again_under_its_own_id() -> None:
    def drop_the_first_two(call: ReceivedCall) -> None:
        if len(server.calls) in (2, 3):
            call.peer.drop()
        else:
            done(call)

    async with ScriptedServer(drop_the_first_two) as server:
        endpoint = endpoint_of(server)
        await endpoint.send(call_of(0), timeout_s=LONG_S)
        call = call_of(1)
        # Once is what an idle connection explains; lost again on a new one, it is the server's trouble.
        with pytest.raises(ConnectionLost, match="the server closed the connection"):
            await endpoint.send(call, timeout_s=LONG_S)
        assert (await endpoint.send(call, timeout_s=LONG_S)).result
        assert [(seen.call_id, seen.header.retry_count) for seen in server.calls] == [(0, 0), (1, 0), (1, 1), (1, 2)]
        assert len({seen.identity for seen in server.calls[1:]}) == 1
        endpoint.close()


async def test_a_caller_that_leaves_does_not_end_the_attempt_of_the_others(loop_time: LoopTime) -> None:
    gate = Gate()
    async with ScriptedServer(done) as server:
        endpoint = endpoint_of(server, authentication=gate)
        leaving = asyncio.create_task(endpoint.send(call_of(0), timeout_s=LONG_S))
        staying = asyncio.create_task(endpoint.send(call_of(1), timeout_s=LONG_S))
        await server.connected(1)
        impatient = asyncio.create_task(endpoint.send(call_of(2), timeout_s=1))
        await loop_time.pass_s(1)
        with pytest.raises(StorageUnavailable, match=f"{server.address}: no connection within 1 s"):
            await impatient
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert not endpoint.is_idle
        gate.opened.set()
        assert (await staying).result
        assert (gate.entered_count, [call.call_id for call in server.calls]) == (1, [1])
        endpoint.close()


async def test_an_attempt_nobody_waits_for_any_more_fails_without_a_sound() -> None:
    gate = Gate()
    async with ScriptedServer(done) as server:
        endpoint = endpoint_of(server, authentication=gate)
        leaving = asyncio.create_task(endpoint.send(call_of(0), timeout_s=LONG_S))
        (peer,) = await server.connected(1)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        peer.drop()
        gate.opened.set()
        await peer.closed.wait()
        assert (await endpoint.send(call_of(1), timeout_s=LONG_S)).result
        endpoint.close()


async def test_closing_ends_the_attempt_under_way_and_all_who_wait() -> None:
    async with ScriptedServer(done) as server:
        endpoint = endpoint_of(server, authentication=Gate())
        waiting = [asyncio.create_task(endpoint.send(call_of(call_id), timeout_s=LONG_S)) for call_id in range(2)]
        (peer,) = await server.connected(1)
        endpoint.close()
        for task in waiting:
            with pytest.raises(StorageUnavailable, match="closed here"):
                await task
        with pytest.raises(StorageUnavailable, match="closed here"):
            await endpoint.send(call_of(3), timeout_s=LONG_S)
        await peer.closed.wait()


async def test_a_caller_cancelled_while_the_endpoint_closes_is_cancelled() -> None:
    async with ScriptedServer(done) as server:
        endpoint = endpoint_of(server, authentication=Gate())
        task = asyncio.create_task(endpoint.send(call_of(0), timeout_s=LONG_S))
        await server.connected(1)
        endpoint.close()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_an_impatient_call_does_not_cost_the_others_their_connection(loop_time: LoopTime) -> None:
    async with ScriptedServer() as server:
        endpoint = endpoint_of(server)
        patient = asyncio.create_task(endpoint.send(call_of(0), timeout_s=LONG_S))
        await server.received(1)
        impatient = asyncio.create_task(endpoint.send(call_of(1), timeout_s=1))
        await server.received(2)
        await loop_time.pass_s(1)
        with pytest.raises(CallTimedOut):
            await impatient
        assert endpoint.is_connected
        done(server.calls[0])
        assert (await patient).result
        endpoint.close()


async def test_a_connection_on_which_nothing_is_heard_is_given_up(loop_time: LoopTime) -> None:
    async with ScriptedServer() as server:
        endpoint = endpoint_of(server, silence_max_s=0.5)
        calling = asyncio.create_task(endpoint.send(call_of(0), timeout_s=2))
        await server.received(1)
        await loop_time.pass_s(2)
        with pytest.raises(CallTimedOut, match="delete unanswered for 2 s"):
            await calling
        assert not endpoint.is_connected
        await server.peers[0].closed.wait()
        server.script = done
        assert (await endpoint.send(call_of(1), timeout_s=LONG_S)).result
        endpoint.close()


async def test_impatient_calls_alone_find_out_too(loop_time: LoopTime) -> None:
    async with ScriptedServer() as server:
        endpoint = endpoint_of(server, silence_max_s=4.5)
        for call_id in range(6):
            calling = asyncio.create_task(endpoint.send(call_of(call_id), timeout_s=1))
            await server.received(call_id + 1)
            await loop_time.pass_s(1)
            with pytest.raises(StorageUnavailable):
                await calling
        # Five of them were silent for longer than that together.
        assert [call.peer.number for call in server.calls] == [0] * 5 + [1]
        endpoint.close()


async def test_silence_is_noticed_although_nobody_waited_to_the_end(loop_time: LoopTime) -> None:
    async with ScriptedServer() as server:
        endpoint = endpoint_of(server, silence_max_s=2)
        task = asyncio.create_task(endpoint.send(call_of(0), timeout_s=LONG_S))
        await server.received(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert endpoint.is_connected
        await loop_time.pass_s(2)
        server.script = done
        assert (await endpoint.send(call_of(1), timeout_s=LONG_S)).result
        assert len(server.peers) == 2
        endpoint.close()


async def test_a_connection_made_in_the_moment_of_closing_is_closed() -> None:
    class Closing(Gate):
        async def negotiate(self, negotiation: Negotiation) -> None:
            asyncio.get_running_loop().call_soon(endpoint.close)

    async with ScriptedServer(done) as server:
        endpoint = endpoint_of(server, authentication=Closing())
        with pytest.raises(StorageUnavailable, match="closed here"):
            await endpoint.send(call_of(0), timeout_s=LONG_S)
        await server.peers[0].closed.wait()
        assert not endpoint.is_connected
