"""A session that is ended in the place of its holder: in a real ZooKeeper, with what lives with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from bmq.dev.zookeeper import ZooKeeperServer
from bmq.election.election import ElectionUnavailable
from bmq.election.zookeeper import ZooKeeperElection
from bmq.election.zookeeper_session_end import RETRY_PAUSE_S, end_session
from bmq.election.zookeeper_wire import SessionKey
from bmq.server.session_end import end_worker_session
from bmq.server.settings import Settings
from testing.zookeeper import fresh_chroot
from tests.integration.cluster.test_zookeeper import ZooKeeperGround, threads_ended  # noqa: F401  (a fixture)
from tests.support.lossy_proxy import LossyProxy
from tests.unit.election.election_contract import CLUSTER_ID, Heard, member, until, within

pytestmark = [pytest.mark.contract, pytest.mark.timeout(120)]

# No test has the patience to wait for the end of such a session.
SESSION_TIMEOUT_S = 60.0
WAIT_S = 20.0


class Ground(ZooKeeperGround):
    """Knows the sessions of each election, as a supervisor would."""

    def __init__(self, server: ZooKeeperServer, root: str) -> None:
        super().__init__(server, root)
        self.session_timeout_s = SESSION_TIMEOUT_S
        self.keys: dict[int, list[SessionKey]] = {}

    async def election(self, node_id: int, *, start_wait_s: float = 15.0) -> ZooKeeperElection:
        proxy = await self.at_end.enter_async_context(LossyProxy(self.server.address))
        election = ZooKeeperElection(
            f"{proxy.address}{self.root}",
            node_id=node_id,
            session_timeout_s=self.session_timeout_s,
            start_wait_s=start_wait_s,
            on_session=self.keys.setdefault(node_id, []).append,
        )
        self.proxies[election] = proxy
        return election

    async def end(self, key: SessionKey) -> bool:
        return await asyncio.to_thread(end_session, [str(self.server.address)], key, WAIT_S)


@pytest.fixture
def ground(zookeeper: ZooKeeperServer, threads_ended: None, request: pytest.FixtureRequest) -> Iterator[Ground]:  # noqa: F811
    yield Ground(zookeeper, fresh_chroot(request.node.name))


def test_what_a_dead_process_held_goes_at_once(ground: Ground) -> None:
    async def story() -> None:
        dead, other = await ground.started(1), await ground.started(2)
        await dead.join(member(1, "a"))
        claim = await within(dead.campaign(member(1, "a")))
        await until(lambda: other.leader == claim and 1 in other.members, "it is seen")
        await ground.cut(dead)
        waiting = ground.later(other.campaign(member(2)))
        again = await ground.started(1)
        joining = ground.later(again.join(member(1, "b")))  # type: ignore[arg-type]
        assert not waiting.done() and not joining.done()
        assert await ground.end(ground.keys[1][0])
        await within(joining)
        assert (await within(waiting)).epoch == claim.epoch + 1
        await until(lambda: other.members.get(1) == member(1, "b"), "the new one is seen")

    ground.run(story)


def test_a_session_that_is_over_or_another_s_is_left_at_that(ground: Ground) -> None:
    async def story() -> None:
        one = await ground.started(1)
        await one.join(member(1))
        claim = await within(one.campaign(member(1)))
        lost = Heard()
        one.on_lost(claim, lost)
        (key,) = ground.keys[1]
        for wrong in (bytes(16), b"", b"garbage", key.password[::-1], key.password + b"\0"):
            assert not await ground.end(SessionKey(key.id, wrong))
        assert not await ground.end(SessionKey(key.id ^ 1, key.password))
        await one.raise_epoch(0)
        assert (len(lost), one.leader, dict(one.members)) == (0, claim, {1: member(1)})
        await one.close()
        assert not await ground.end(key)

    ground.run(story)


def test_one_that_never_was_leaves_none_behind(ground: Ground) -> None:
    """0 asks for a new one: what is given is closed again."""

    async def story() -> None:
        assert await ground.end(SessionKey(0, bytes(16)))

    ground.run(story)


def test_each_session_is_told_and_the_last_one_is_the_one_to_end(ground: Ground) -> None:
    """A living holder, against all rules: it loses what it held, notices, and begins again in another session."""

    async def story() -> None:
        one, two = await ground.started(1), await ground.started(2)
        await one.join(member(1))
        claim = await within(one.campaign(member(1)))
        lost = Heard()
        one.on_lost(claim, lost)
        assert await ground.end(ground.keys[1][-1])
        await until(lambda: len(lost) == 1, "it has noticed")
        await until(lambda: len(ground.keys[1]) == 2, "another session is told of")
        await until(lambda: 1 in one.members, "its entry is back")
        first, second = ground.keys[1]
        assert first != second and not await ground.end(first)
        await ground.cut(one)
        assert await ground.end(second)
        await until(lambda: 1 not in two.members, "its entry is gone")

    ground.run(story)


def test_a_connection_that_is_lost_and_back_is_no_other_session(ground: Ground) -> None:
    async def story() -> None:
        one = await ground.started(1)
        assert isinstance(one, ZooKeeperElection)
        connection_number = one._session.connection_number
        await ground.cut(one)
        await ground.mend(one)
        await until(lambda: one._session.connection_number > connection_number, "it is back")
        assert len(ground.keys[1]) == 1

    ground.run(story)


@pytest.mark.campaign("zookeeper")
def test_a_server_that_is_away_is_tried_until_it_is_back(own_zookeeper: ZooKeeperServer) -> None:
    ground = Ground(own_zookeeper, "/bmq")

    async def story() -> None:
        one = await ground.started(1)
        await one.join(member(1))
        await ground.cut(one)
        (key,) = ground.keys[1]
        await ground.stop()
        with pytest.raises(ElectionUnavailable, match="Connection refused"):
            # Time for one try: the last of several may begin too late to be refused.
            await asyncio.to_thread(end_session, [str(own_zookeeper.address)], key, RETRY_PAUSE_S)
        ending = asyncio.ensure_future(ground.end(key))
        await ground.start()
        assert await ending
        two = await ground.started(2)
        assert not two.members
        await own_zookeeper.pause()
        with pytest.raises(ElectionUnavailable):
            await asyncio.to_thread(end_session, [str(own_zookeeper.address)], ground.keys[2][0], 0.2)
        await own_zookeeper.resume()

    ground.run(story)


def test_what_the_short_lived_process_says(own_zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.setitimer", lambda *_: None)  # here it would end all tests
    keys: list[SessionKey] = []

    def settings(session_ms: int) -> Settings:
        cluster = {"zookeeper_session_ms": session_ms}
        return Settings(node_id=4, zookeeper=f"{own_zookeeper.address}/bmq", cluster=cluster)

    async def story() -> None:
        patient, hasty = settings(int(WAIT_S * 1000)), settings(300)
        one = ZooKeeperElection(patient.zookeeper, node_id=4, session_timeout_s=WAIT_S, on_session=keys.append)
        await one.start(CLUSTER_ID)
        for _ in range(2):
            await asyncio.to_thread(end_worker_session, patient, keys[0])
        await one.close()
        await own_zookeeper.stop()
        await asyncio.to_thread(end_worker_session, hasty, keys[0])

    with capture_logs() as logs:
        asyncio.run(story())
    said = [(line["event"], line.get("was_over")) for line in logs if line["event"].startswith("session")]
    assert said == [("session_ended", False), ("session_ended", True), ("session_not_ended", None)]
    assert keys[0].password.hex() not in str(logs) and repr(keys[0].password) not in str(logs)
