"""What every election promises. A test module subclasses ElectionContract and gives it a ground to play on.

Each test is a story in which processes, each with an election of its own, meet at one service that can be hurt.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from bmq.election.election import (
    ControllerClaim,
    DuplicateNode,
    Election,
    ElectionError,
    ElectionUnavailable,
    ForeignElection,
    Member,
    MetadataMark,
)
from testing.patience import Patience

CLUSTER_ID = "orders"
WAIT_S = 20.0
# Longer than any machine needs to go on with a session after the service was started again.
SURE_TIMEOUT_S = 15.0
POLL_S = 0.02


class ElectionGround(ABC):
    """Runs a story; whatever it left open is closed at the end, also when it failed.

    `session_timeout_s`: of the elections that are made from here on. `away_s`: how long the service is away at most.
    """

    session_timeout_s: float
    away_s = 1.0

    def __init__(self) -> None:
        self.at_end = AsyncExitStack()

    @abstractmethod
    def run(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None: ...

    @abstractmethod
    async def election(self, node_id: int, *, start_wait_s: float = 15.0) -> Election:
        """One process's, not started."""

    @abstractmethod
    async def cut(self, election: Election) -> None:
        """This process cannot reach the service until `mend`. Never mended, it is as good as dead."""

    @abstractmethod
    async def mend(self, election: Election) -> None: ...

    @abstractmethod
    async def stop(self) -> None:
        """The service is away, for everybody; sessions have their full time again when it is back."""

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def hang(self) -> None:
        """Nobody reaches the service for so long that it ends all sessions; then those do that were not cut before."""

    @abstractmethod
    async def wipe(self) -> None:
        """It loses all its data; it is away before and back after."""

    async def started(self, node_id: int, cluster_id: str = CLUSTER_ID) -> Election:
        election = await self.election(node_id)
        self.at_end.push_async_callback(election.close)
        await election.start(cluster_id)
        return election

    def later(self, work: Coroutine[Any, Any, ControllerClaim]) -> asyncio.Task[ControllerClaim]:
        """Begun, and ended with the story."""
        task = asyncio.ensure_future(work)

        async def end() -> None:
            task.cancel()
            with suppress(asyncio.CancelledError, ElectionError):
                await task

        self.at_end.push_async_callback(end)
        return task


def member(node_id: int, incarnation: str = "a") -> Member:
    return Member(node_id, incarnation, "127.0.0.1", 9000 + node_id)


async def until(condition: Callable[[], object], what: str, timeout_s: float = WAIT_S) -> None:
    patience = Patience(timeout_s)
    try:
        async with asyncio.timeout(patience.limit_s):
            while True:
                if condition():
                    patience.note()
                    return
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise AssertionError(f"not within {patience.limit_s:.0f} s: {what}") from None


async def within(work: Coroutine[Any, Any, ControllerClaim] | asyncio.Task[ControllerClaim]) -> ControllerClaim:
    patience = Patience(WAIT_S)
    async with asyncio.timeout(patience.limit_s):
        claim = await work
    patience.note()
    return claim


class Heard:
    """Counts calls, and keeps what they said."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def __call__(self, *arguments: Any) -> None:
        self.said.append(arguments[0] if arguments else None)

    def __len__(self) -> int:
        return len(self.said)


class ElectionContract:
    """The class that inherits gives `ground`."""

    # -- Leadership --------------------------------------------------------------------------------------------------

    def test_epochs_rise_over_terms_sessions_and_restarts(self, ground: ElectionGround) -> None:
        async def story() -> None:
            epochs = []
            for _ in range(3):
                one = await ground.started(1)
                for _ in range(2):
                    claim = await within(one.campaign(member(1)))
                    epochs.append(claim.epoch)
                    assert claim == ControllerClaim(1, "127.0.0.1", 9001, claim.epoch)
                    assert one.leader == claim
                    await one.resign(claim)
                epochs.append((await within(one.campaign(member(1)))).epoch)
                await one.close()
                await ground.stop()
                await ground.start()
            assert epochs == sorted(set(epochs))

        ground.run(story)

    def test_one_leads_and_the_others_queue(self, ground: ElectionGround) -> None:
        async def story() -> None:
            elections = {node_id: await ground.started(node_id) for node_id in (1, 2, 3)}
            watcher = await ground.started(4)
            told = Heard()
            watcher.on_leader(told)
            campaigns = {
                node_id: ground.later(election.campaign(member(node_id))) for node_id, election in elections.items()
            }
            claims = []
            while campaigns:
                done, _ = await asyncio.wait(campaigns.values(), timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
                (winner,) = done
                claim = winner.result()
                claims.append(claim)
                await until(lambda claim=claim: watcher.leader == claim, "the watcher is told")  # type: ignore[misc]
                await until(lambda claim=claim: told.said[-1:] == [claim], "and called")  # type: ignore[misc]
                del campaigns[claim.node_id]
                assert [task for task in campaigns.values() if task.done()] == []
                await elections[claim.node_id].resign(claim)
            assert {claim.node_id for claim in claims} == {1, 2, 3}
            assert [claim.epoch for claim in claims] == sorted({claim.epoch for claim in claims})
            await until(lambda: watcher.leader is None, "nobody is left")

        ground.run(story)

    def test_who_is_closed_leaves_the_leadership_at_once(self, ground: ElectionGround) -> None:
        async def story() -> None:
            ground.session_timeout_s = SURE_TIMEOUT_S  # far longer than a busy machine takes for a closing
            one, two = await ground.started(1), await ground.started(2)
            first = await within(one.campaign(member(1)))
            waiting = ground.later(two.campaign(member(2)))
            await until(lambda: two.leader == first, "the second one knows the first")
            loop = asyncio.get_running_loop()
            before_s = loop.time()
            await one.close()
            second = await within(waiting)
            assert second.epoch > first.epoch
            assert loop.time() - before_s < ground.session_timeout_s
            await one.close()

        ground.run(story)

    def test_a_deposed_controller_hears_of_it(self, ground: ElectionGround) -> None:
        async def story() -> None:
            one, two = await ground.started(1), await ground.started(2)
            first = await within(one.campaign(member(1)))
            lost = Heard()
            one.on_lost(first, lost)
            await two.depose(first)
            second = await within(two.campaign(member(2)))
            assert second.epoch > first.epoch
            await until(lambda: len(lost) == 1, "the deposed one hears of it")
            await until(lambda: one.leader == second, "and of its successor")
            late = Heard()
            one.on_lost(first, late)
            await until(lambda: len(late) == 1, "who asks late is told at once")
            await one.resign(first)
            # A wrong guess about somebody who is gone long since: nothing happens.
            still = Heard()
            two.on_lost(second, still)
            await one.depose(first)
            await one.depose(ControllerClaim(2, second.host, second.port, second.epoch + 1))
            third = ground.later(one.campaign(member(1)))
            await asyncio.sleep(10 * POLL_S)
            assert (two.leader, len(still), len(lost), third.done()) == (second, 0, 1, False)

        ground.run(story)

    def test_a_resignation_is_not_a_loss(self, ground: ElectionGround) -> None:
        async def story() -> None:
            one, two = await ground.started(1), await ground.started(2)
            claim = await within(one.campaign(member(1)))
            lost = Heard()
            one.on_lost(claim, lost)
            await one.resign(claim)
            assert one.leader is None
            await one.resign(claim)
            await within(two.campaign(member(2)))
            await until(lambda: one.leader is not None, "the first one knows the second")
            assert len(lost) == 0

        ground.run(story)

    def test_a_cancelled_campaign_leaves_nothing(self, ground: ElectionGround) -> None:
        async def story() -> None:
            one, two = await ground.started(1), await ground.started(2)
            for turns in range(12):
                task = asyncio.ensure_future(one.campaign(member(1)))
                for _ in range(turns):
                    await asyncio.sleep(0.0005)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await one.resign(await task)
                await two.resign(await within(two.campaign(member(2))))
            await until(lambda: one.leader is None and two.leader is None, "nobody leads")

        ground.run(story)

    # -- Who is alive ------------------------------------------------------------------------------------------------

    def test_members_come_and_go(self, ground: ElectionGround) -> None:
        async def story() -> None:
            ground.session_timeout_s = SURE_TIMEOUT_S  # far longer than a busy machine takes for a closing
            one = await ground.started(1)
            told = Heard()
            one.on_members(told)
            await one.join(member(1))
            two = await ground.started(2)
            await two.join(member(2))
            await until(lambda: dict(one.members) == {1: member(1), 2: member(2)}, "both are seen")
            await until(lambda: told.said and told.said[-1] == one.members, "and told")
            await two.close()
            await until(lambda: dict(one.members) == {1: member(1)}, "one has gone", ground.session_timeout_s)
            again = await ground.started(2)
            await again.join(member(2, "b"))
            await until(lambda: one.members.get(2) == member(2, "b"), "its next incarnation is seen")
            later = await ground.started(3)
            await until(lambda: later.members == one.members, "who comes later sees all")

        ground.run(story)

    def test_an_incarnation_follows_another_unnoticed(self, ground: ElectionGround) -> None:
        async def story() -> None:
            one = await ground.started(1)
            for incarnation in "abcdef":
                two = await ground.started(2)
                await two.join(member(2, incarnation))
                await until(lambda i=incarnation: one.members.get(2) == member(2, i), "it is seen")  # type: ignore[misc]
                await two.close()

        ground.run(story)

    def test_a_node_id_belongs_to_one_live_process(self, ground: ElectionGround) -> None:
        async def story() -> None:
            one, twin = await ground.started(1), await ground.started(1)
            await one.join(member(1, "a"))
            loop = asyncio.get_running_loop()
            before_s = loop.time()
            with pytest.raises(DuplicateNode, match=r"another live process.* has node id 1: give each node an id"):
                await twin.join(member(1, "b"))
            assert loop.time() - before_s >= ground.session_timeout_s * 0.9
            assert dict(one.members) == {1: member(1, "a")}
            await one.close()
            await twin.join(member(1, "b"))
            await until(lambda: dict(twin.members) == {1: member(1, "b")}, "the twin has it now")

        ground.run(story)

    def test_what_a_dead_process_left_is_waited_for(self, ground: ElectionGround) -> None:
        async def story() -> None:
            dead, watcher = await ground.started(1), await ground.started(2)
            await dead.join(member(1, "a"))
            await until(lambda: watcher.members.get(1) == member(1, "a"), "it is seen")
            await ground.cut(dead)
            restarted = await ground.started(1)
            await restarted.join(member(1, "b"))
            await until(lambda: watcher.members.get(1) == member(1, "b"), "the new process is seen")

        ground.run(story)

    # -- Losses ------------------------------------------------------------------------------------------------------

    def test_away_nothing_is_lost_and_nobody_is_told_so(self, ground: ElectionGround) -> None:
        async def story() -> None:
            ground.session_timeout_s = SURE_TIMEOUT_S
            one, two = await ground.started(1), await ground.started(2)
            for election, node_id in ((one, 1), (two, 2)):
                await election.join(member(node_id))
            claim = await within(one.campaign(member(1)))
            await until(lambda: two.leader == claim and len(two.members) == 2, "both know all")
            waiting = ground.later(two.campaign(member(2)))
            heard = Heard()
            one.on_lost(claim, heard)
            for election in (one, two):
                election.on_leader(heard)
                election.on_members(heard)
            await ground.stop()
            await asyncio.sleep(ground.away_s)
            assert one.leader == two.leader == claim
            assert dict(one.members) == dict(two.members) == {1: member(1), 2: member(2)}
            await ground.start()
            three = await ground.started(3)
            assert three.leader == claim
            for election in (one, two):
                await election.raise_epoch(0)  # it is back
            await asyncio.sleep(10 * POLL_S)
            assert heard.said == [], heard.said
            assert not waiting.done()
            # And everything works again.
            await three.depose(claim)
            successor = await within(waiting)
            await until(lambda: None in heard.said and one.leader == successor, "the first one hears of its end")
            await three.join(member(3))
            await until(lambda: 3 in one.members, "watches are there again")

        ground.run(story)

    def test_the_metadata_mark_only_rises(self, ground: ElectionGround) -> None:
        """By epoch first: a controller that was replaced cannot take its successor's mark away."""

        async def story() -> None:
            one, two = await ground.started(1), await ground.started(2)
            assert await one.metadata_mark() is None
            await one.raise_metadata_mark(MetadataMark(3, 100))
            assert await two.metadata_mark() == MetadataMark(3, 100)
            await two.raise_metadata_mark(MetadataMark(4, 90))
            await one.raise_metadata_mark(MetadataMark(3, 200))
            assert await one.metadata_mark() == MetadataMark(4, 90)
            await asyncio.gather(*(one.raise_metadata_mark(MetadataMark(4, 90 + n)) for n in range(5)))
            assert await two.metadata_mark() == MetadataMark(4, 94)

        ground.run(story)

    def test_orders_while_it_is_away_are_refused_in_time(self, ground: ElectionGround) -> None:
        async def story() -> None:
            one = await ground.election(1, start_wait_s=5.0)
            ground.at_end.push_async_callback(one.close)
            await one.start(CLUSTER_ID)
            claim = await within(one.campaign(member(1)))
            await ground.stop()
            loop = asyncio.get_running_loop()
            before_s = loop.time()
            with pytest.raises(ElectionUnavailable, match="did not answer"):
                await one.depose(claim)
            with pytest.raises(ElectionUnavailable, match="did not answer"):
                await one.raise_epoch(17)
            assert loop.time() - before_s < 20.0
            # A resignation needs no answer: it is given up when the service is back.
            await one.resign(claim)
            assert one.leader is None
            await ground.start()
            two = await ground.started(2)
            assert (await within(two.campaign(member(2)))).epoch > claim.epoch

        ground.run(story)

    def test_a_short_cut_costs_nothing(self, ground: ElectionGround) -> None:
        async def story() -> None:
            one, two = await ground.started(1), await ground.started(2)
            await one.join(member(1))
            claim = await within(one.campaign(member(1)))
            heard = Heard()
            one.on_lost(claim, heard)
            await until(lambda: two.leader == claim and 1 in two.members, "it is known")
            two.on_leader(heard)
            two.on_members(heard)
            for _ in range(3):
                await ground.cut(one)
                await asyncio.sleep(ground.session_timeout_s / 10)
                await ground.mend(one)
                await one.raise_epoch(1)
            await asyncio.sleep(1.2 * ground.session_timeout_s)
            assert (heard.said, one.leader, dict(two.members)) == ([], claim, {1: member(1)})

        ground.run(story)

    def test_an_expired_session_is_made_again(self, ground: ElectionGround) -> None:
        async def story() -> None:
            one, two = await ground.started(1), await ground.started(2)
            await one.join(member(1))
            await two.join(member(2))
            first = await within(one.campaign(member(1)))
            lost = Heard()
            one.on_lost(first, lost)
            waiting = ground.later(two.campaign(member(2)))
            await until(lambda: two.leader == first and 1 in two.members, "all is known")
            await ground.cut(one)
            second = await within(waiting)
            await until(lambda: 1 not in two.members, "it counts as dead")
            # It knows nothing of that, and is not to guess.
            assert (one.leader, len(lost), set(one.members)) == (first, 0, {1, 2})
            await ground.mend(one)
            await until(lambda: len(lost) == 1, "it hears of its loss")
            await until(lambda: one.leader == second, "and of its successor")
            await until(lambda: two.members.get(1) == member(1), "its entry is made again by itself")
            third = ground.later(one.campaign(member(1)))
            await two.resign(second)
            assert (await within(third)).epoch > second.epoch
            await two.close()
            await until(lambda: dict(one.members) == {1: member(1)}, "its watches are there again")
            assert len(lost) == 1

        ground.run(story)

    def test_a_service_that_hung_ended_all_sessions_and_buries_nobody(self, ground: ElectionGround) -> None:
        async def story() -> None:
            elections = {node_id: await ground.started(node_id) for node_id in (1, 2, 3)}
            for node_id, election in elections.items():
                await election.join(member(node_id))
            claim = await within(elections[1].campaign(member(1)))
            waiting = ground.later(elections[2].campaign(member(2)))
            for election in elections.values():
                await until(lambda e=election: len(e.members) == 3 and e.leader == claim, "all is known")  # type: ignore[misc]
            lost, told = Heard(), Heard()
            elections[1].on_lost(claim, lost)
            for election in elections.values():
                election.on_members(told)
            await ground.cut(elections[3])
            await ground.hang()
            successor = await within(waiting)
            await until(lambda: len(lost) == 1, "the leadership was lost with the session")
            await until(lambda: elections[1].leader == successor, "the next one is known")
            await until(lambda: set(elections[1].members) == {1, 2}, "the dead one is found missing")
            assert all({1, 2} <= set(members) for members in told.said)

        ground.run(story)

    # -- Whose it is -------------------------------------------------------------------------------------------------

    def test_another_cluster_is_refused(self, ground: ElectionGround) -> None:
        async def story() -> None:
            await ground.started(1)
            with pytest.raises(ForeignElection, match="belongs to the cluster 'orders', this one is 'payments'"):
                await ground.started(2, "payments")

        ground.run(story)

    def test_data_that_was_lost(self, ground: ElectionGround) -> None:
        async def story() -> None:
            one = await ground.started(1)
            await one.join(member(1))
            first = await within(one.campaign(member(1)))
            lost = Heard()
            one.on_lost(first, lost)
            await ground.wipe()
            # The one that lived through it remembers, and makes the root again.
            await until(lambda: len(lost) == 1, "the leadership is lost with the data")
            second = await within(one.campaign(member(1)))
            assert second.epoch > first.epoch
            watcher = await ground.started(2)
            await until(lambda: watcher.members.get(1) == member(1), "its entry is there again")
            await one.close()
            await ground.wipe()
            await watcher.close()
            # A new process cannot know, and is told by whoever has the metadata log.
            fresh = await ground.started(3)
            third = await within(fresh.campaign(member(3)))
            assert third.epoch <= second.epoch
            assert await fresh.raise_epoch(second.epoch) == second.epoch
            assert await fresh.raise_epoch(1) == second.epoch
            await fresh.resign(third)
            assert (await within(fresh.campaign(member(3)))).epoch == second.epoch + 1

        ground.run(story)

    def test_a_root_that_another_cluster_took_after_a_wipe(self, ground: ElectionGround) -> None:
        async def story() -> None:
            one = await ground.started(1)
            await one.join(member(1))
            await ground.cut(one)
            await ground.wipe()
            other = await ground.started(1, "payments")
            await other.join(member(1, "other"))
            await ground.mend(one)
            with pytest.raises(ForeignElection, match="belongs to the cluster 'payments', this one is 'orders'"):
                await within(one.campaign(member(1)))
            claim = await within(other.campaign(member(1, "other")))
            assert (other.leader, dict(other.members)) == (claim, {1: member(1, "other")})

        ground.run(story)

    # -- Beginning and end -------------------------------------------------------------------------------------------

    def test_unreachable_at_the_start(self, ground: ElectionGround) -> None:
        async def story() -> None:
            await ground.stop()
            one = await ground.election(1, start_wait_s=0.5)
            loop = asyncio.get_running_loop()
            before_s = loop.time()
            with pytest.raises(ElectionUnavailable, match=r"did not answer .*within 0\.5 s"):
                await one.start(CLUSTER_ID)
            assert 0.4 < loop.time() - before_s < 10.0
            await one.close()

        ground.run(story)

    def test_closing_ends_what_waits(self, ground: ElectionGround) -> None:
        async def story() -> None:
            one, two, twin = await ground.started(1), await ground.started(2), await ground.started(1)
            await one.join(member(1))
            claim = await within(one.campaign(member(1)))
            waiting = ground.later(two.campaign(member(2)))
            await until(lambda: two.leader == claim, "it waits")
            joining = asyncio.ensure_future(twin.join(member(1, "b")))
            await asyncio.sleep(5 * POLL_S)
            await two.close()
            await twin.close()
            for task in (waiting, joining):
                with pytest.raises(ElectionUnavailable, match="closed"):
                    await asyncio.wait_for(task, WAIT_S)

        ground.run(story)

    def test_closing_while_the_service_is_away_is_quick(self, ground: ElectionGround) -> None:
        async def story() -> None:
            one = await ground.started(1)
            await one.join(member(1))
            await within(one.campaign(member(1)))
            await ground.stop()
            loop = asyncio.get_running_loop()
            before_s = loop.time()
            await one.close()
            assert loop.time() - before_s < 10.0
            await ground.start()
            two = await ground.started(1)
            await two.join(member(1, "b"))
            await within(two.campaign(member(1, "b")))

        ground.run(story)
