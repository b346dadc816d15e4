"""Which NameNode is asked, how often and for how long."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.errors import AuthenticationRequired, PermissionRefused, SafeMode
from bmq.hdfs.failover import CALLS_IN_FLIGHT_MAX, new_client_id
from bmq.hdfs.namenode import NameNode
from bmq.hdfs.proto.namenode_pb2 import DeleteResponse
from bmq.hdfs.proto.rpc_pb2 import RpcResponseHeader
from bmq.log.store import StorageUnavailable
from tests.fakes.hadoop_ipc import ReceivedCall, Script, ScriptedServer, ignore
from tests.fakes.loop_time import LoopTime
from tests.support.waiting import until

pytestmark = [pytest.mark.unit, pytest.mark.timeout(30), pytest.mark.usefixtures("loop_time")]

SAFE = "org.apache.hadoop.hdfs.server.namenode.SafeModeException"
SAFE_TEXT = "Cannot delete /a. Name node is in safe mode."
RETRIABLE = "org.apache.hadoop.ipc.RetriableException"


class NoPause(Random):
    """Draws 0 and notes between what it was asked to draw."""

    def __init__(self) -> None:
        super().__init__()
        self.bounds: list[tuple[float, float]] = []

    def uniform(self, a: float, b: float) -> float:
        self.bounds.append((a, b))
        return 0.0


def config_of(*servers: ScriptedServer) -> HdfsConfig:
    return HdfsConfig(namenodes=tuple(server.address for server in servers), root="/r", user="ann")


def namenode_of(*servers: ScriptedServer, random: Random | None = None, **seconds: float) -> NameNode:
    """`seconds`: settings of the configuration."""
    changed: dict[str, Any] = dict(seconds)
    return NameNode(replace(config_of(*servers), **changed), random or NoPause())


def done(call: ReceivedCall) -> None:
    call.answer(DeleteResponse(result=True))


def standby(call: ReceivedCall) -> None:
    call.refuse("org.apache.hadoop.ipc.StandbyException", "Operation category WRITE is not supported in state standby")


def in_turn(*scripts: Script) -> Script:
    """One script for each call; the last one for all that follow."""
    left = list(scripts)

    def script(call: ReceivedCall) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(call)

    return script


def refusing(exception_class: str, message: str) -> Script:
    return lambda call: call.refuse(exception_class, message)


def drop(call: ReceivedCall) -> None:
    call.peer.drop()


async def delete(namenode: NameNode, retry_max_s: float | None = None) -> bool:
    return await namenode.delete("/a", recursive=False, retry_max_s=retry_max_s)


# --- one call keeps its identity


@pytest.mark.parametrize(
    "failure", [drop, refusing(RETRIABLE, "busy"), refusing(SAFE, SAFE_TEXT), refusing("a.RetryStartFileException", "")]
)
async def test_every_retry_carries_the_same_ids(failure: Script) -> None:
    async with ScriptedServer(in_turn(done, failure, failure, failure, done)) as server:
        namenode = namenode_of(server)
        assert await delete(namenode)
        assert await delete(namenode)
        assert len(server.calls) == 5
        assert len({call.identity for call in server.calls[1:]}) == 1
        assert [call.header.retry_count for call in server.calls[1:]] == [0, 1, 2, 3]
        assert server.calls[0].identity != server.calls[1].identity
        assert server.calls[0].header.client_id == server.calls[1].header.client_id
        await namenode.close()


@pytest.mark.parametrize("failure", [drop, standby, ignore])
async def test_also_at_another_namenode(failure: Script, loop_time: LoopTime) -> None:
    async with ScriptedServer(failure) as first, ScriptedServer(done) as second:
        namenode = namenode_of(first, second, rpc_timeout_s=5.0)
        deleting = asyncio.create_task(delete(namenode))
        if failure is ignore:
            await first.received(1)
            await loop_time.pass_s(5.0)
        assert await deleting
        calls = first.calls + second.calls
        assert len({call.identity for call in calls}) == 1
        assert [call.header.retry_count for call in calls] == list(range(len(calls)))
        await namenode.close()


async def test_no_two_clients_share_an_id_even_with_one_seed() -> None:
    async with ScriptedServer(done) as server:
        for _ in range(2):
            namenode = namenode_of(server, random=Random(0))
            await delete(namenode)
            await namenode.close()
        assert len({call.header.client_id for call in server.calls}) == 2
    assert len(new_client_id()) == 16


async def test_call_ids_start_over_before_they_no_longer_fit() -> None:
    async with ScriptedServer(done) as server:
        namenode = namenode_of(server)
        namenode._failover._last_call_id = (1 << 31) - 2
        await delete(namenode)
        await delete(namenode)
        assert [call.call_id for call in server.calls] == [(1 << 31) - 1, 0]
        await namenode.close()


# --- which NameNode


@pytest.mark.parametrize("name", ["StandbyException", "ObserverRetryOnActiveException"])
async def test_a_namenode_that_is_not_active_is_left_at_once_and_remembered(name: str) -> None:
    random = NoPause()
    async with ScriptedServer(refusing(f"org.apache.hadoop.ipc.{name}", "")) as first, ScriptedServer(done) as second:
        namenode = namenode_of(first, second, random=random)
        for _ in range(3):
            assert await delete(namenode)
        assert (len(first.calls), len(second.calls)) == (1, 3)
        assert random.bounds == []
        first.script, second.script = done, standby
        assert await delete(namenode)
        assert (len(first.calls), len(second.calls)) == (2, 4)
        assert random.bounds == []
        await namenode.close()


async def test_many_calls_at_once_all_find_the_active_one() -> None:
    async with ScriptedServer(standby) as first, ScriptedServer(done) as second:
        namenode = namenode_of(first, second)
        assert all(await asyncio.gather(*(delete(namenode) for _ in range(100))))
        assert (len(first.peers), len(second.peers), len(second.calls)) == (1, 1, 100)
        await namenode.close()


async def test_a_namenode_that_is_gone_is_left_for_the_other() -> None:
    async with ScriptedServer(done) as first, ScriptedServer(done) as second:
        namenode = namenode_of(first, second)
        await delete(namenode)
        await first.stop()
        assert await delete(namenode)
        assert (len(first.calls), len(second.calls)) == (1, 1)
        await namenode.close()


async def test_after_a_round_over_all_there_is_a_pause_that_grows_to_its_longest() -> None:
    random = NoPause()
    async with ScriptedServer(standby) as first, ScriptedServer(standby) as second:
        second.script = in_turn(*[standby] * 6, done)
        namenode = namenode_of(first, second, random=random, retry_first_s=0.1, retry_longest_s=0.5)
        assert await delete(namenode)
        assert [call.header.retry_count for call in first.calls] == [0, 2, 4, 6, 8, 10, 12]
        assert random.bounds == [(0, 0.1), (0, 0.2), (0, 0.4), (0, 0.5), (0, 0.5), (0, 0.5)]
        await namenode.close()


async def test_pauses_are_drawn_from_the_generator_handed_in(loop_time: LoopTime) -> None:
    async def pauses(seed: int) -> list[float]:
        drawn: list[float] = []

        class Noting(Random):
            def uniform(self, a: float, b: float) -> float:
                drawn.append(super().uniform(a, b))
                return drawn[-1]

        async with ScriptedServer(in_turn(*[standby] * 4, done)) as server:
            namenode = namenode_of(server, random=Noting(seed), retry_first_s=0.1, retry_longest_s=0.4)
            await loop_time.result(delete(namenode), pauses_s_max=0.4)
            await namenode.close()
        return drawn

    first = await pauses(1)
    assert len(first) == 4
    assert first == await pauses(1)
    assert first != await pauses(2)
    assert all(0 <= pause <= 0.4 for pause in first)


# --- giving up


async def test_all_unreachable_names_every_address_and_reason() -> None:
    async with ScriptedServer() as gone, ScriptedServer(standby) as second:
        await gone.stop()
        namenode = namenode_of(gone, second, retry_first_s=1.0, random=_Longest())
        with pytest.raises(StorageUnavailable) as caught:
            await delete(namenode, 0.3)
        text = str(caught.value)
        assert text.startswith("/a: no NameNode carried out delete within 0.3 s (")
        assert f"{gone.address}: Connect" in text
        assert f"; {second.address}: StandbyException: Operation category WRITE is not supported" in text
        await namenode.close()


class _Longest(Random):
    def uniform(self, a: float, b: float) -> float:
        return b


async def test_no_pause_is_begun_that_would_end_too_late() -> None:
    async with ScriptedServer(standby) as server:
        # Patience beyond this test's time limit: a pause that was begun after all shows as a hang.
        namenode = namenode_of(server, retry_first_s=500.0, retry_longest_s=500.0, random=_Longest())
        with pytest.raises(StorageUnavailable, match="within 400 s"):
            await delete(namenode, 400.0)
        assert len(server.calls) == 1
        await namenode.close()


async def test_safe_mode_is_waited_out() -> None:
    random = NoPause()
    async with ScriptedServer(in_turn(*[refusing(SAFE, SAFE_TEXT)] * 3, done)) as server:
        namenode = namenode_of(server, random=random)
        assert await delete(namenode)
        assert len(random.bounds) == 3
        await namenode.close()


@pytest.mark.parametrize("script", [refusing(SAFE, SAFE_TEXT), refusing(RETRIABLE, f"{SAFE}: {SAFE_TEXT}")])
async def test_safe_mode_that_lasts_is_named_with_the_namenodes_own_sentence(
    script: Script, loop_time: LoopTime
) -> None:
    async with ScriptedServer(script) as active, ScriptedServer(standby) as other:
        namenode = namenode_of(active, other, random=Random(1), retry_longest_s=0.5)
        with pytest.raises(SafeMode, match=rf"^/a: the NameNode is in safe mode and takes no changes .*{SAFE_TEXT}"):
            await loop_time.result(delete(namenode, 2.0), pauses_s_max=0.5)
        # Another NameNode does not help against safe mode, and no try was begun that had no time left.
        assert (other.calls, len(active.calls_of("delete")) > 1) == ([], True)
        await namenode.close()


async def test_a_try_cut_short_by_the_deadline_does_not_hide_why_the_others_failed(loop_time: LoopTime) -> None:
    async with ScriptedServer(in_turn(refusing(SAFE, SAFE_TEXT), ignore)) as server:
        namenode = namenode_of(server)
        deleting = asyncio.create_task(delete(namenode, 2.0))
        await server.received(2)
        await loop_time.pass_s(2.0)
        with pytest.raises(SafeMode, match=SAFE_TEXT):
            await deleting
        assert len(server.calls) == 2
        await namenode.close()


async def test_nor_does_one_for_which_a_pause_that_lasted_too_long_left_no_time(loop_time: LoopTime) -> None:
    class Pause(Random):
        is_drawn = False

        def uniform(self, a: float, b: float) -> float:
            self.is_drawn = True
            return 0.5

    async with ScriptedServer(lambda call: call.peer.send(b"HTTP/1.1 404 Not Found\r\n")) as server:
        namenode = namenode_of(server, random=(pause := Pause()))
        deleting = asyncio.create_task(delete(namenode, retry_max_s=3.0))
        await until(lambda: pause.is_drawn)
        loop_time.jump(4.0)
        with pytest.raises(StorageUnavailable, match="this is a web port"):
            await deleting
        assert len(server.calls) == 1
        await namenode.close()


async def test_what_the_namenode_refuses_for_good_is_not_tried_again() -> None:
    denied = refusing("org.apache.hadoop.security.AccessControlException", "Permission denied: user=ann")
    async with ScriptedServer(denied) as first, ScriptedServer(done) as second:
        namenode = namenode_of(first, second)
        with pytest.raises(PermissionRefused, match=r"^/a: .*Permission denied: user=ann"):
            await delete(namenode)
        assert (len(first.calls), len(second.calls)) == (1, 0)
        await namenode.close()


async def test_a_demand_for_kerberos_is_not_tried_again() -> None:
    def demand(call: ReceivedCall) -> None:
        header = RpcResponseHeader(
            call_id=(1 << 32) - 1,
            status=RpcResponseHeader.FATAL,
            exception_class_name="org.apache.hadoop.security.AccessControlException",
            error_message="SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]",
            error_detail=15,
        )
        call.peer.send_frame(header)
        call.peer.drop()

    async with ScriptedServer(demand) as first, ScriptedServer(done) as second:
        namenode = namenode_of(first, second)
        with pytest.raises(AuthenticationRequired, match=r"demands Kerberos \(SASL\)"):
            await delete(namenode)
        assert (len(first.calls), len(second.calls)) == (1, 0)
        await namenode.close()


async def test_one_that_is_still_starting_does_not_keep_calls_from_the_active_one() -> None:
    random = NoPause()
    starting = refusing(RETRIABLE, "NameNode still not started")
    async with ScriptedServer(starting) as first, ScriptedServer(done) as second:
        namenode = namenode_of(first, second, random=random)
        assert await delete(namenode)
        assert (len(first.calls), len(second.calls), len(random.bounds)) == (1, 1, 1)
        await namenode.close()


async def test_rubbish_is_given_up_with_a_sentence() -> None:
    async with ScriptedServer(lambda call: call.peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        namenode = namenode_of(server, random=_Longest(), retry_first_s=0.2)
        with pytest.raises(StorageUnavailable, match=f"{server.address} sent HTTP: this is a web port"):
            await delete(namenode, 0.1)
        await namenode.close()


# --- a NameNode that hangs


async def test_a_namenode_that_hangs_is_left_after_a_calls_share_of_the_time(loop_time: LoopTime) -> None:
    async with ScriptedServer() as hanging, ScriptedServer(done) as second:
        namenode = namenode_of(hanging, second, rpc_timeout_s=5.0)
        # Less than one timeout: half of it for each, or the second had none left.
        deleting = asyncio.create_task(delete(namenode, 2.0))
        await hanging.received(1)
        await loop_time.pass_s(0.9)
        assert not second.calls
        await loop_time.pass_s(0.1)
        assert await deleting
        assert await delete(namenode, 2.0)
        assert (len(hanging.calls), len(second.calls)) == (1, 2)
        await namenode.close()


async def test_a_namenode_that_hangs_holds_nobody_longer_than_his_own_time(loop_time: LoopTime) -> None:
    async with ScriptedServer() as server:
        namenode = namenode_of(server, rpc_timeout_s=5.0)
        patient = [asyncio.create_task(delete(namenode, 20.0)) for _ in range(CALLS_IN_FLIGHT_MAX)]
        await server.received(CALLS_IN_FLIGHT_MAX)
        impatient = asyncio.create_task(delete(namenode, 1.0))
        await loop_time.pass_s(1.0)
        with pytest.raises(StorageUnavailable, match="/a: delete: 256 other calls were under way to the NameNodes all"):
            await impatient
        assert not any(call.done() for call in patient)
        assert len(server.calls) == CALLS_IN_FLIGHT_MAX
        waiting = asyncio.create_task(delete(namenode, 20.0))
        server.script = done
        done(server.calls[0])
        assert await waiting
        for task in patient[1:]:
            task.cancel()
        await asyncio.gather(*patient, return_exceptions=True)
        assert await delete(namenode)  # the cancelled ones gave their places back
        await namenode.close()


async def test_how_many_wait_is_bounded(monkeypatch: pytest.MonkeyPatch, loop_time: LoopTime) -> None:
    monkeypatch.setattr("bmq.hdfs.failover.CALLS_WAITING_MAX", 3)
    async with ScriptedServer() as server:
        namenode = namenode_of(server, rpc_timeout_s=5.0, random=_Longest(), retry_first_s=1.0)
        tasks = [asyncio.create_task(delete(namenode, 20.0)) for _ in range(CALLS_IN_FLIGHT_MAX + 3)]
        await server.received(CALLS_IN_FLIGHT_MAX)
        with pytest.raises(StorageUnavailable, match="3 calls wait for the NameNodes already"):
            await delete(namenode, 0.5)
        leaving = tasks.pop()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        # There is room for one again; it waits for as long as it has.
        patient = asyncio.create_task(delete(namenode, 1.0))
        await loop_time.pass_s(1.0)
        with pytest.raises(StorageUnavailable, match="256 other calls were under way to the NameNodes all the time"):
            await patient
        await namenode.close()
        results = await loop_time.result(asyncio.gather(*tasks, return_exceptions=True), pauses_s_max=1.0)
        assert {type(result) for result in results} == {StorageUnavailable}


# --- leaving


@pytest.mark.parametrize("script", [ignore, standby])
async def test_a_cancelled_call_ends_at_once(script: Script) -> None:
    async with ScriptedServer(script) as server:
        namenode = namenode_of(server, random=_Longest(), retry_first_s=5.0, retry_longest_s=5.0)
        task = asyncio.create_task(delete(namenode))
        await server.received(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server.script = done
        assert await delete(namenode)
        await namenode.close()


async def test_closing_ends_calls_under_way_and_later_ones() -> None:
    async with ScriptedServer() as first, ScriptedServer() as second:
        namenode = namenode_of(first, second)
        task = asyncio.create_task(delete(namenode))
        await first.received(1)
        await namenode.close()
        for call in (task, delete(namenode)):
            with pytest.raises(StorageUnavailable, match="/a: delete: the connections to HDFS were closed here"):
                await call
        assert second.calls == []


async def test_an_address_without_a_server_costs_no_more_than_the_time_given(loop_time: LoopTime) -> None:
    config = HdfsConfig(
        namenodes=(Address("no.such.name.invalid", 8020),), root="/r", user="ann", connect_timeout_s=5.0
    )
    namenode = NameNode(config, Random(1))
    began_s = loop_time.now_s()
    with pytest.raises(StorageUnavailable, match=r"no\.such\.name\.invalid:8020"):
        await loop_time.result(delete(namenode, 10.0), pauses_s_max=config.retry_longest_s)
    assert loop_time.now_s() - began_s <= 10.0 + 0.001
    await namenode.close()
