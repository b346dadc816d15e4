"""The fake election keeps the contract, on virtual time, and the same seed gives the same history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from bmq.election.election import Election
from tests.fakes.election import FakeElection, FakeElectionService
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.process import Process
from tests.unit.election.election_contract import (
    ElectionContract,
    ElectionGround,
    Heard,
    member,
    until,
    within,
)

pytestmark = pytest.mark.unit


class FakeGround(ElectionGround):
    session_timeout_s = 6.0
    away_s = 60.0

    def __init__(self, seed: int = 1) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.service = FakeElectionService(self.loop, Random(seed), session_timeout_s=self.session_timeout_s)

    def run(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            async with self.at_end:
                await story()

        try:
            self.loop.run_until_complete(whole())
            assert not self.loop.failures, self.loop.failures
        finally:
            self.loop.discard()

    async def election(self, node_id: int, *, start_wait_s: float = 15.0) -> Election:
        self.service.start_wait_s, self.service.session_timeout_s = start_wait_s, self.session_timeout_s
        return self.service.session(node_id)

    async def cut(self, election: Election) -> None:
        assert isinstance(election, FakeElection)
        self.service.cut(election)

    async def mend(self, election: Election) -> None:
        assert isinstance(election, FakeElection)
        self.service.mend(election)

    async def stop(self) -> None:
        self.service.pause()

    async def start(self) -> None:
        self.service.resume()

    async def hang(self) -> None:
        self.service.pause()
        await asyncio.sleep(2 * self.session_timeout_s)
        self.service.resume(is_time_counted=True)

    async def wipe(self) -> None:
        self.service.pause()
        self.service.wipe()
        self.service.resume()


@pytest.mark.parametrize("seed", range(5))
class TestFakeElectionContract(ElectionContract):
    @pytest.fixture
    def ground(self, seed: int) -> FakeGround:
        return FakeGround(seed)


def test_a_paused_process_loses_its_session_and_hears_of_it_when_it_goes_on() -> None:
    ground = FakeGround()
    paused, other = Process(ground.loop, "paused"), Process(ground.loop, "other")
    lost: list[float] = []

    async def leader_epoch() -> None:
        election = await ground.started(1)
        await election.join(member(1))
        claim = await election.campaign(member(1))
        election.on_lost(claim, lambda: lost.append(ground.loop.time()))

    async def story() -> None:
        await paused.spawn(leader_epoch())
        election = await ground.started(2)
        waiting = other.spawn(election.campaign(member(2)))
        await until(lambda: 1 in election.members and election.leader is not None, "the first one leads")
        paused.pause()
        await within(waiting)
        assert 1 not in election.members
        assert lost == []
        await asyncio.sleep(60)
        paused.resume()
        await until(lambda: len(lost) == 1 and 1 in election.members, "it is back")

    ground.run(story)


def test_a_killed_process_hears_nothing_and_is_missed_in_time() -> None:
    ground = FakeGround()

    async def story() -> None:
        one, two = await ground.started(1), await ground.started(2)
        assert isinstance(one, FakeElection)
        await one.join(member(1))
        claim = await within(one.campaign(member(1)))
        lost = Heard()
        one.on_lost(claim, lost)
        await until(lambda: 1 in two.members, "it is seen")
        before_s = ground.loop.time()
        ground.service.kill(one)
        await within(two.campaign(member(2)))
        gone_s = ground.loop.time() - before_s
        assert ground.session_timeout_s / 2 < gone_s < ground.session_timeout_s * 1.1
        assert (dict(two.members), len(lost)) == ({}, 0)

    ground.run(story)


def test_a_session_can_be_ended_by_the_service() -> None:
    ground = FakeGround()

    async def story() -> None:
        one = await ground.started(1)
        assert isinstance(one, FakeElection)
        await one.join(member(1))
        claim = await within(one.campaign(member(1)))
        lost = Heard()
        one.on_lost(claim, lost)
        before = one.session_id
        ground.service.expire(one)
        await until(lambda: len(lost) == 1 and one.session_id != before, "it has a new one")
        assert ground.service.entries == {1: (member(1), one.session_id)}

    ground.run(story)


def _history(seed: int) -> list[object]:
    """What four candidates are told while the service is hurt at random."""
    ground = FakeGround(seed)
    dice = Random(seed)
    told: list[object] = []
    held: list[tuple[int, str]] = []

    async def candidate(node_id: int) -> None:
        election = await ground.started(node_id)
        election.on_leader(lambda claim: told.append((ground.loop.time(), node_id, claim)))
        await election.join(member(node_id))
        while True:
            claim = await election.campaign(member(node_id))
            held.append((claim.epoch, "taken"))
            lost = asyncio.Event()
            election.on_lost(claim, lost.set)
            try:
                async with asyncio.timeout(dice.uniform(0.1, 10)):
                    await lost.wait()
            except TimeoutError:
                await election.resign(claim)

    async def story() -> None:
        tasks = [asyncio.ensure_future(candidate(node_id)) for node_id in range(4)]
        for _ in range(60):
            await asyncio.sleep(dice.uniform(0, 4))
            clients = [client for client in ground.service._clients if client.session_id]
            match dice.randrange(5):
                case 0:
                    ground.service.pause()
                    await asyncio.sleep(dice.uniform(0, 15))
                    ground.service.resume(is_time_counted=dice.random() < 0.5)
                case 1:
                    ground.service.cut(victim := dice.choice(clients))
                    await asyncio.sleep(dice.uniform(0, 15))
                    ground.service.mend(victim)
                case 2:
                    ground.service.expire(dice.choice(clients))
                case 3 if ground.service.seat is not None:
                    await dice.choice(clients).depose(ground.service.seat[0])
                case _:
                    pass
        for task in tasks:
            assert not task.done(), task
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    ground.run(story)
    epochs = [epoch for epoch, _ in held]
    assert epochs == sorted(set(epochs)), "an epoch was used twice, or out of order"
    assert len(epochs) > 10
    return told


@pytest.mark.parametrize("seed", range(8))
def test_any_history_has_one_holder_an_epoch_and_replays_from_its_seed(seed: int) -> None:
    assert _history(seed) == _history(seed)
