"""The election in a real ZooKeeper keeps the contract, and what only a real one can do to it does no harm."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError
from structlog.testing import capture_logs

from bmq.dev.zookeeper import ZooKeeperServer
from bmq.election.election import ControllerClaim, Election, ElectionError, ElectionUnavailable
from bmq.election.zookeeper import ZooKeeperElection
from testing.patience import Patience
from testing.processes import eventually
from testing.zookeeper import fresh_chroot
from tests.support.lossy_proxy import LossyProxy
from tests.unit.election.election_contract import (
    CLUSTER_ID,
    POLL_S,
    SURE_TIMEOUT_S,
    WAIT_S,
    ElectionContract,
    ElectionGround,
    Heard,
    member,
    until,
    within,
)

pytestmark = [pytest.mark.contract, pytest.mark.timeout(120), pytest.mark.safety]

# The server allows 1 s; a busy machine, on which everything may stand still for seconds, needs more to keep a session.
SESSION_TIMEOUT_S = 6.0
# A history of candidates has this many steps, and more until enough of them were elected.
STEPS_LEAST = 60
EPOCHS_LEAST = 11
HISTORY_MAX_S = 60.0


class ZooKeeperGround(ElectionGround):
    """Each process reaches the server through a proxy of its own, under a root that is this ground's alone."""

    def __init__(self, server: ZooKeeperServer, root: str) -> None:
        super().__init__()
        self.session_timeout_s = SESSION_TIMEOUT_S
        self.server = server
        self.root = root
        self.proxies: dict[Election, LossyProxy] = {}

    def run(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            failures: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
            async with self.at_end:
                await story()
            assert failures == []

        asyncio.run(whole())

    async def election(self, node_id: int, *, start_wait_s: float = 15.0) -> ZooKeeperElection:
        proxy = await self.at_end.enter_async_context(LossyProxy(self.server.address))
        election = ZooKeeperElection(
            f"{proxy.address}{self.root}",
            node_id=node_id,
            session_timeout_s=self.session_timeout_s,
            start_wait_s=start_wait_s,
        )
        self.proxies[election] = proxy
        return election

    async def cut(self, election: Election) -> None:
        self.proxies[election].cut()

    async def mend(self, election: Election) -> None:
        self.proxies[election].mend()

    async def stop(self) -> None:
        await self.server.kill()

    async def start(self) -> None:
        await self.server.start()

    async def hang(self) -> None:
        """Every session has an ephemeral node by which its end is seen, past the proxies."""
        away = [proxy for proxy in self.proxies.values() if not proxy.is_cut]
        for proxy in away:
            proxy.cut()
        with Reader(self) as reader:
            async with asyncio.timeout(Patience(WAIT_S).limit_s):
                while await reader.ephemeral_nodes():  # noqa: ASYNC110 - a watch would only tell of one of them
                    await asyncio.sleep(POLL_S)
        for proxy in away:
            proxy.mend()

    async def wipe(self) -> None:
        await self.server.kill()
        self.server.wipe()
        await self.server.start()


class CalmGround(ZooKeeperGround):
    """On the server that tests share. Its sessions hang and are cut by the proxies alone."""

    async def stop(self) -> None:
        raise AssertionError("this test stops the shared server: it belongs to HURTING")

    async def start(self) -> None:
        raise AssertionError("this test starts the shared server: it belongs to HURTING")

    async def wipe(self) -> None:
        raise AssertionError("this test wipes the shared server: it belongs to HURTING")


@pytest.fixture
def threads_ended() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    # The client library's end a moment after it was told to.
    eventually(lambda: set(threading.enumerate()) <= before, WAIT_S, "its threads have ended")


HURTING = frozenset(
    {
        "test_epochs_rise_over_terms_sessions_and_restarts",
        "test_away_nothing_is_lost_and_nobody_is_told_so",
        "test_orders_while_it_is_away_are_refused_in_time",
        "test_data_that_was_lost",
        "test_a_root_that_another_cluster_took_after_a_wipe",
        "test_unreachable_at_the_start",
        "test_closing_while_the_service_is_away_is_quick",
        "test_a_hung_server_is_away_and_loses_nothing_in_time",
        "test_an_operator_reads_a_line_each_time",
    }
)
"""Tests that stop, hang or wipe the server, and get one of their own. The shared one refuses such orders."""


@pytest.fixture
def ground(threads_ended: None, request: pytest.FixtureRequest) -> ZooKeeperGround:
    if request.function.__name__ in HURTING:
        return ZooKeeperGround(request.getfixturevalue("own_zookeeper"), "/bmq")
    return CalmGround(request.getfixturevalue("zookeeper"), fresh_chroot(request.node.name))


class TestZooKeeperElectionContract(ElectionContract):
    pass


# -- With a server that is not hurt --------------------------------------------------------------------------------


@pytest.fixture
def calm(zookeeper: ZooKeeperServer, threads_ended: None, request: pytest.FixtureRequest) -> ZooKeeperGround:
    return ZooKeeperGround(zookeeper, f"{fresh_chroot(request.node.name)}/deep/down")


class Reader:
    """Looks at the server with a plain client, in threads of the test's own."""

    def __init__(self, ground: ZooKeeperGround) -> None:
        self.client = KazooClient(str(ground.server.address), timeout=10.0)
        self.root = ground.root

    def __enter__(self) -> Reader:
        self.client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop()
        self.client.close()

    async def json(self, path: str) -> Any:
        data, _ = await asyncio.to_thread(self.client.get, f"{self.root}{path}")
        return json.loads(data)

    async def ephemeral_nodes(self) -> list[str]:
        """The paths of those that elections have made."""
        return await asyncio.to_thread(self._ephemeral_nodes)

    def _ephemeral_nodes(self) -> list[str]:
        found = [f"/nodes/{name}" for name in self.client.get_children(f"{self.root}/nodes")]
        return [*found, "/controller"] if self.client.exists(f"{self.root}/controller") else found


def test_what_lies_in_zookeeper_can_be_read(calm: ZooKeeperGround) -> None:
    async def story() -> None:
        one = await calm.started(1)
        await one.join(member(1))
        claim = await within(one.campaign(member(1)))
        with Reader(calm) as reader:
            assert await reader.json("/controller_epoch") == claim.epoch
            assert await reader.json("/controller") == {
                "node_id": 1,
                "host": "127.0.0.1",
                "port": 9001,
                "epoch": claim.epoch,
            }
            assert await reader.json("/nodes/1") == {
                "node_id": 1,
                "incarnation": "a",
                "host": "127.0.0.1",
                "port": 9001,
            }
            data, _ = await asyncio.to_thread(reader.client.get, f"{calm.root}/cluster_id")
            assert data == CLUSTER_ID.encode()

    calm.run(story)


def test_strange_data_is_nobody(calm: ZooKeeperGround) -> None:
    async def story() -> None:
        one = await calm.started(1)
        with Reader(calm) as reader:
            strange = {
                "/controller": b"\xff{",
                "/nodes/7": b"[]",
                "/nodes/8": b'{"node_id": "8", "incarnation": "a", "host": "h", "port": 1}',
                "/nodes/x": b"null",
            }
            for path, data in strange.items():
                await asyncio.to_thread(reader.client.create, f"{calm.root}{path}", data, ephemeral=True)
            waiting = calm.later(one.campaign(member(1)))
            await one.join(member(1))
            await until(lambda: dict(one.members) == {1: member(1)}, "only the readable one counts")
            assert (one.leader, waiting.done()) == (None, False)
        claim = await within(waiting)  # the other session ended, and its nodes with it
        assert one.leader == claim

    calm.run(story)


def test_a_root_that_holds_something_else(calm: ZooKeeperGround) -> None:
    async def story() -> None:
        one = await calm.started(1)
        with Reader(calm) as reader:
            await asyncio.to_thread(reader.client.set, f"{calm.root}/controller_epoch", b"soon")
        with pytest.raises(ElectionError, match="holds no epoch: something else uses this root"):
            await within(one.campaign(member(1)))
        with pytest.raises(ElectionError, match="holds no epoch"):
            await one.raise_epoch(3)

    calm.run(story)


def test_the_last_epoch(calm: ZooKeeperGround) -> None:
    async def story() -> None:
        one = await calm.started(1)
        with pytest.raises(ElectionError, match="2147483648 is no controller epoch: the highest is 2147483647"):
            await one.raise_epoch(2**31)
        assert await one.raise_epoch(2**31 - 1) == 2**31 - 1
        with pytest.raises(ElectionError, match="at its end"):
            await within(one.campaign(member(1)))

    calm.run(story)


@pytest.mark.parametrize("time", range(5))
def test_a_leadership_whose_answer_was_lost_is_found_taken(calm: ZooKeeperGround, time: int) -> None:
    """The answer that is lost is the first to come once nobody leads: which one it is depends on the moment."""

    async def story() -> None:
        one, two = await calm.started(1), await calm.started(2)
        first = await within(two.campaign(member(2)))
        await until(lambda: one.leader == first, "it is known")
        waiting = calm.later(one.campaign(member(1)))
        calm.proxies[one].lose_next_answer()
        await two.resign(first)
        claim = await within(waiting)
        assert (claim.epoch, one.leader) == (first.epoch + 1, claim)
        assert calm.proxies[one].lost.is_set()

    calm.run(story)


def test_a_transaction_whose_answer_was_lost_is_found_done(calm: ZooKeeperGround) -> None:
    async def story() -> None:
        one, two = await calm.started(1), await calm.started(2)
        assert isinstance(one, ZooKeeperElection)
        proxy, ask = calm.proxies[one], one._session.ask
        orders: list[str] = []

        async def lossy(order: Callable[[Any], Any], *, number: int | None = None) -> Any:
            # The transaction is the one order made by a function of its own.
            orders.append(order.__qualname__)
            if "_commit" in order.__qualname__:
                proxy.lose_next_answer()
            return await ask(order, number=number)

        one._session.ask = lossy  # type: ignore[method-assign]
        claim = await within(one.campaign(member(1)))
        one._session.ask = ask  # type: ignore[method-assign]
        assert proxy.lost.is_set()
        assert len([name for name in orders if "_commit" in name]) == 1
        await until(lambda: two.leader == claim == one.leader, "it leads")
        assert await two.raise_epoch(0) == claim.epoch

    calm.run(story)


def test_a_deposition_that_is_overtaken_hits_nobody_else(calm: ZooKeeperGround) -> None:
    """The leadership changes hands between the look at its holder and the deletion."""

    async def story() -> None:
        one, two, critic = await calm.started(1), await calm.started(2), await calm.started(3)
        assert isinstance(critic, ZooKeeperElection)
        first = await within(one.campaign(member(1)))
        await until(lambda: critic.leader == first, "it is known")
        commit = critic._leadership._commit
        second: list[ControllerClaim] = []

        async def slow(fill: Callable[[Any], None]) -> bool:
            if not second:
                await one.resign(first)
                second.append(await within(two.campaign(member(2))))
            return await commit(fill)

        critic._leadership._commit = slow  # type: ignore[method-assign]
        await critic.depose(first)
        lost = Heard()
        two.on_lost(second[0], lost)
        await until(lambda: critic.leader == second[0] == one.leader, "the second one leads")
        assert (len(lost), await critic.raise_epoch(0)) == (0, second[0].epoch)

    calm.run(story)


def test_a_candidate_that_is_overtaken_uses_no_epoch_again(calm: ZooKeeperGround) -> None:
    """Between its look at the counter and its transaction another one is elected and resigns."""

    async def story() -> None:
        one, two = await calm.started(1), await calm.started(2)
        assert isinstance(one, ZooKeeperElection)
        commit = one._leadership._commit
        others: list[ControllerClaim] = []

        async def slow(fill: Callable[[Any], None]) -> bool:
            if not others:
                others.append(await within(two.campaign(member(2))))
                await two.resign(others[0])
            return await commit(fill)

        one._leadership._commit = slow  # type: ignore[method-assign]
        claim = await within(one.campaign(member(1)))
        assert claim.epoch > others[0].epoch

    calm.run(story)


def test_an_entry_that_was_replaced_in_one_step_is_seen(calm: ZooKeeperGround) -> None:
    """The list of names is the same before and after."""

    async def story() -> None:
        one = await calm.started(1)
        with Reader(calm) as reader:

            def replace(incarnation: str) -> None:
                entry = {"node_id": 7, "incarnation": incarnation, "host": "127.0.0.1", "port": 9007}
                path, transaction = f"{calm.root}/nodes/7", reader.client.transaction()
                if reader.client.exists(path):
                    transaction.delete(path)
                transaction.create(path, json.dumps(entry).encode(), ephemeral=True)
                transaction.commit()

            for incarnation in "abcdefgh":
                await asyncio.to_thread(replace, incarnation)
                await until(lambda i=incarnation: one.members.get(7) == member(7, i), "it is seen")  # type: ignore[misc]

    calm.run(story)


def test_nodes_that_an_operator_deleted_are_made_again(calm: ZooKeeperGround) -> None:
    async def story() -> None:
        one, two = await calm.started(1), await calm.started(2)
        await one.join(member(1))
        claim = await within(one.campaign(member(1)))
        lost = Heard()
        one.on_lost(claim, lost)
        await until(lambda: two.leader == claim and 1 in two.members, "all is known")
        with Reader(calm) as reader:
            await asyncio.to_thread(reader.client.delete, f"{calm.root}/nodes/1")
            with suppress(NodeExistsError):  # it is there again
                while True:
                    await asyncio.to_thread(reader.client.create, f"{calm.root}/nodes/1", ephemeral=True)
                    await asyncio.to_thread(reader.client.delete, f"{calm.root}/nodes/1")
            assert len(lost) == 0
            # The entries may be made again while they are deleted: then their directory stays.
            for path in ("controller_epoch", "cluster_id", "controller", "nodes/1", "nodes"):
                with suppress(NotEmptyError, NoNodeError):
                    await asyncio.to_thread(reader.client.delete, f"{calm.root}/{path}")
            await until(lambda: len(lost) == 1, "the leadership is lost with the root")
            await until(lambda: dict(two.members) == {1: member(1)} == dict(one.members), "the entry is back")
            again = await within(one.campaign(member(1)))
            assert again.epoch > claim.epoch
            await until(lambda: two.leader == again, "it is known")

    calm.run(story)


def test_many_members(calm: ZooKeeperGround) -> None:
    async def story() -> None:
        one = await calm.started(1)
        with Reader(calm) as reader:

            def fill() -> None:
                for node_id in range(100, 500):
                    made = {"node_id": node_id, "incarnation": "x", "host": "h", "port": 1}
                    reader.client.create(f"{calm.root}/nodes/{node_id}", json.dumps(made).encode(), ephemeral=True)

            await asyncio.to_thread(fill)
            await until(lambda: len(one.members) == 400, "all are seen")
            two = await calm.started(2)
            assert two.members == one.members
        await until(lambda: not one.members and not two.members, "all are gone")

    calm.run(story)


def test_what_the_client_library_stumbles_over_does_not_end_the_session_for_good(calm: ZooKeeperGround) -> None:
    async def story() -> None:
        one = await calm.started(1)
        assert isinstance(one, ZooKeeperElection)
        await one.join(member(1))
        claim = await within(one.campaign(member(1)))
        lost = Heard()
        one.on_lost(claim, lost)
        threads = one._session._threads
        assert threads is not None

        def stumble(*arguments: object) -> None:
            raise RuntimeError("a bug")

        with capture_logs() as logs:
            threads.select = stumble  # type: ignore[assignment, method-assign]
            calm.proxies[one].cut()
            calm.proxies[one].mend()
            await until(lambda: len(lost) == 1, "the leadership is lost")
            again = await within(one.campaign(member(1)))
            assert again.epoch > claim.epoch
            await until(lambda: 1 in one.members, "the entry is back")
        assert {"event": "zookeeper_client_failed", "reason": "RuntimeError('a bug')", "log_level": "error"} in logs

    calm.run(story)


def test_any_history_has_one_holder_an_epoch(calm: ZooKeeperGround) -> None:
    """Four candidates are elected, resign, are deposed and are cut off; each epoch is held once, and they rise."""
    dice = Random(7)
    held: list[ControllerClaim] = []

    def is_enough() -> bool:
        return len(held) >= EPOCHS_LEAST and len({claim.node_id for claim in held}) == 4

    async def candidate(node_id: int) -> None:
        election = await calm.started(node_id)
        while True:
            claim = await election.campaign(member(node_id))
            held.append(claim)
            lost = asyncio.Event()
            election.on_lost(claim, lost.set)
            with suppress(TimeoutError):
                async with asyncio.timeout(dice.uniform(0.0, 0.3)):
                    await lost.wait()
            await election.resign(claim)

    async def story() -> None:
        critic = await calm.started(9)
        tasks = [asyncio.ensure_future(candidate(node_id)) for node_id in range(4)]
        loop = asyncio.get_running_loop()
        end_s = loop.time() + HISTORY_MAX_S
        steps = 0
        while steps < STEPS_LEAST or (not is_enough() and loop.time() < end_s):
            steps += 1
            await asyncio.sleep(dice.uniform(0, 0.1))
            victim = dice.choice(list(calm.proxies.values()))
            if (leader := critic.leader) is not None and dice.random() < 0.4:
                with suppress(ElectionUnavailable):
                    await critic.depose(leader)
            elif dice.random() < 0.5:
                victim.lose_next_answer()
            else:
                victim.cut()
                await asyncio.sleep(dice.choice((0.0, 0.05, 0.1)))
                victim.mend()
        for task in tasks:
            assert not task.done(), task
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await critic.depose(held[-1])
        successor = await within(critic.campaign(member(9)))
        assert successor.epoch > max(claim.epoch for claim in held)

    calm.run(story)
    epochs = [claim.epoch for claim in held]
    assert epochs == sorted(set(epochs)), "an epoch was used twice, or out of order"
    assert is_enough(), held


# -- A server that is hurt -------------------------------------------------------------------------------------------


def test_a_hung_server_is_away_and_loses_nothing_in_time(ground: ZooKeeperGround) -> None:
    """Paused for less than a session timeout, and at the end closed without an answer."""

    async def story() -> None:
        ground.session_timeout_s = SURE_TIMEOUT_S
        one = await ground.started(1)
        await one.join(member(1))
        claim = await within(one.campaign(member(1)))
        heard = Heard()
        one.on_lost(claim, heard)
        await ground.server.pause()
        await asyncio.sleep(ground.session_timeout_s / 3)
        await ground.server.resume()
        await one.raise_epoch(1)
        assert (heard.said, one.leader, dict(one.members)) == ([], claim, {1: member(1)})
        two = await ground.started(2)
        await ground.server.pause()
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        await asyncio.gather(one.close(), two.close())
        assert loop.time() - before_s < SURE_TIMEOUT_S / 2, "it waited for the session to end"
        await ground.server.resume()

    ground.run(story)


def test_an_operator_reads_a_line_each_time(ground: ZooKeeperGround, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        # Not of the starts: on a busy machine there are lines about the wait for ZooKeeper.
        ground.session_timeout_s = SURE_TIMEOUT_S
        one = await ground.started(1)
        with capture_logs() as logs:
            await ground.stop()
            await asyncio.sleep(1.0)
            await ground.start()
            await one.raise_epoch(1)
            await one.close()
        assert [line["event"] for line in logs] == ["zookeeper_unavailable", "zookeeper_available"]
        ground.session_timeout_s = SESSION_TIMEOUT_S
        two = await ground.started(2)
        await two.join(member(2))
        with capture_logs() as logs:
            await ground.hang()
            await two.raise_epoch(1)
        assert [line["event"] for line in logs] == [
            "zookeeper_unavailable",
            "zookeeper_session_lost",
            "zookeeper_available",
        ]

    ground.run(story)
    assert [record for record in caplog.records if record.name.startswith("kazoo")] == []


def test_without_a_chroot_the_whole_tree_is_the_cluster_s(own_zookeeper: ZooKeeperServer, threads_ended: None) -> None:
    ground = ZooKeeperGround(own_zookeeper, "")

    async def story() -> None:
        one = await ground.started(1)
        await one.join(member(1))
        claim = await within(one.campaign(member(1)))
        two = await ground.started(2)
        assert (two.leader, dict(two.members)) == (claim, {1: member(1)})
        with Reader(ground) as reader:
            found = await asyncio.to_thread(reader.client.get_children, "/")
            assert set(found) == {"cluster_id", "controller", "controller_epoch", "nodes", "zookeeper"}

    ground.run(story)


def test_unreachable_at_the_start_names_the_servers_and_says_what_to_do(
    own_zookeeper: ZooKeeperServer, threads_ended: None
) -> None:
    async def story() -> None:
        await own_zookeeper.stop()
        one = ZooKeeperElection(f"{own_zookeeper.address}/bmq", node_id=1, start_wait_s=0.3)
        with pytest.raises(ElectionUnavailable) as refused:
            await one.start(CLUSTER_ID)
        assert str(refused.value) == (
            f"ZooKeeper did not answer at {own_zookeeper.address} within 0.3 s "
            f"({own_zookeeper.address}: Connection refused): "
            "see that it runs, or name its servers with --zookeeper HOST:PORT"
        )

    asyncio.run(story())


def test_a_host_nobody_knows(threads_ended: None) -> None:
    async def story() -> None:
        one = ZooKeeperElection("no-such-host.invalid:2181", node_id=1, start_wait_s=0.5)
        with pytest.raises(ElectionUnavailable, match=r"did not answer at no-such-host\.invalid:2181 within 0\.5 s"):
            await one.start(CLUSTER_ID)

    asyncio.run(story())


def test_something_else_that_listens_there(threads_ended: None) -> None:
    async def story() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        one = ZooKeeperElection(f"127.0.0.1:{port}", node_id=1, start_wait_s=0.5)
        with pytest.raises(ElectionUnavailable, match="accepts connections and gives no session"):
            await one.start(CLUSTER_ID)
        server.close()

    asyncio.run(story())


def test_the_servers_that_live_are_found(zookeeper: ZooKeeperServer, threads_ended: None) -> None:
    async def story() -> None:
        hosts = f"127.0.0.1:1,{zookeeper.address},localhost:1{fresh_chroot('live')}"
        one = ZooKeeperElection(hosts, node_id=1, session_timeout_s=3.0)
        await one.start(CLUSTER_ID)
        assert (await within(one.campaign(member(1)))).epoch == 1
        await one.close()

    asyncio.run(story())
