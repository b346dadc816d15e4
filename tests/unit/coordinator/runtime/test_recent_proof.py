"""Rule 34: a former owner soon stops telling members to go on, and the next one puts nobody out before that (time is virtual)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.coordinator.config import ConsumerConfig, StreamsConfig
from bmq.coordinator.runtime.recent_proof import (
    PROOF_AGE_MAX_MS,
    PROOF_RENEWAL_AGE_MS,
    ProofAge,
    proof_age,
    sessions_from_ms,
)
from bmq.log.store import StorageUnavailable
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.join_group_request import JoinGroupRequestProtocol
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from bmq.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, Topology
from bmq.protocol.messages.sync_group_request import SyncGroupRequest
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.process import Process
from tests.unit.coordinator.classic.group_bench import subscription as classic_subscription
from tests.unit.coordinator.cluster import FAST, Cluster, request_context
from tests.unit.coordinator.consumer.test_cached_responses import Wire, frame_of
from tests.unit.coordinator.consumer.test_classic_members import subscription
from tests.unit.coordinator.streams.bench import subtopology

pytestmark = pytest.mark.unit

SESSION_MS = 10_000
INTERVAL_S = 0.4
AGE_S = PROOF_AGE_MAX_MS / 1000
RENEWAL_S = PROOF_RENEWAL_AGE_MS / 1000
CONFIG = replace(
    FAST,
    consumer=ConsumerConfig(assignment_interval_ms=0, session_timeout_ms=SESSION_MS, min_session_timeout_ms=10),
    streams=StreamsConfig(
        assignment_interval_ms=0,
        session_timeout_ms=SESSION_MS,
        min_session_timeout_ms=10,
        initial_rebalance_delay_ms=0,
    ),
)
GO_ON: Final = ErrorCode.NONE
MOVED: Final = ErrorCode.NOT_COORDINATOR


class Member:
    """The one member of a group, and what it hears of whom it asks."""

    def __init__(self) -> None:
        self.member_id = "A"
        self.epoch = 0

    async def join(self, cluster: Cluster) -> None:
        raise NotImplementedError

    async def join_again(self, cluster: Cluster) -> int:
        """Under the member id that it has."""
        raise NotImplementedError

    async def beat(self, cluster: Cluster) -> int:
        raise NotImplementedError


class Consumer(Member):
    async def join(self, cluster: Cluster) -> None:
        self.epoch = (await self._join(cluster)).member_epoch

    async def join_again(self, cluster: Cluster) -> int:
        self.epoch = 0
        return (await self._join(cluster)).error_code

    async def _join(self, cluster: Cluster) -> Any:
        return await self._ask(cluster, topic_partitions=[], rebalance_timeout_ms=60_000)

    async def beat(self, cluster: Cluster) -> int:
        return (await self._ask(cluster, topic_partitions=None)).error_code

    async def _ask(self, cluster: Cluster, **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=self.member_id, member_epoch=self.epoch, **fields
        )
        if self.epoch == 0:
            request.subscribed_topic_names = ["t"]
        return await cluster.coordinator.consumer.consumer_group_heartbeat(request, request_context(1))


class Streams(Member):
    async def join(self, cluster: Cluster) -> None:
        self.epoch = (await self._join(cluster)).member_epoch

    async def join_again(self, cluster: Cluster) -> int:
        self.epoch = 0
        return (await self._join(cluster)).error_code

    async def _join(self, cluster: Cluster) -> Any:
        topology = Topology(epoch=0, subtopologies=[subtopology("0", ["t"])])
        fields = {"rebalance_timeout_ms": 60_000, "topology": topology, "process_id": "p"}
        return await self._ask(cluster, **fields, active_tasks=[], standby_tasks=[], warmup_tasks=[])

    async def beat(self, cluster: Cluster) -> int:
        nothing = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks", "client_tags"))
        return (await self._ask(cluster, **nothing)).error_code

    async def _ask(self, cluster: Cluster, **fields: Any) -> Any:
        request = StreamsGroupHeartbeatRequest(
            group_id="g", member_id=self.member_id, member_epoch=self.epoch, **fields
        )
        return await cluster.coordinator.streams.streams_group_heartbeat(request, request_context(0))


class Classic(Member):
    metadata = classic_subscription("t")

    async def join(self, cluster: Cluster) -> None:
        joined = await cluster.join(session_ms=SESSION_MS, protocols=self._protocols())
        assert joined.error_code == 0
        self.member_id, self.epoch = joined.member_id, joined.generation_id
        assert await self.sync(cluster) == 0

    async def join_again(self, cluster: Cluster) -> int:
        joined = await cluster.join(member_id=self.member_id, session_ms=SESSION_MS, protocols=self._protocols())
        return joined.error_code

    def _protocols(self) -> list[JoinGroupRequestProtocol]:
        return [JoinGroupRequestProtocol(name="range", metadata=self.metadata)]

    async def sync(self, cluster: Cluster) -> int:
        request = SyncGroupRequest(group_id="g", generation_id=self.epoch, member_id=self.member_id)
        return (await cluster.coordinator.classic.sync_group(request, request_context(3))).error_code

    async def beat(self, cluster: Cluster) -> int:
        request = HeartbeatRequest(group_id="g", generation_id=self.epoch, member_id=self.member_id)
        return (await cluster.coordinator.classic.heartbeat(request, request_context(4))).error_code


class Syncing(Classic):
    """Asks for its assignment again and again instead of saying that it lives."""

    async def beat(self, cluster: Cluster) -> int:
        return await self.sync(cluster)


class ClassicAmongConsumers(Classic):
    """It speaks the classic protocol in a group of the newer one, that another member made."""

    metadata = subscription("t")

    async def join(self, cluster: Cluster) -> None:
        other = Consumer()
        other.member_id = "B"
        await other.join(cluster)
        await super().join(cluster)


KINDS: Final = (Consumer, Streams, Classic, Syncing, ClassicAmongConsumers)
ALONE: Final = (Consumer, Streams, Classic, Syncing)
"""When its session ends no other's does, which would make the group one of another kind, and begin its session anew."""
each_kind = pytest.mark.parametrize("kind", KINDS)
Story = Callable[[Member, Cluster, Cluster], Awaitable[None]]


def run(kind: Callable[[], Member], story: Story) -> None:
    """`story(member, old, new)`: it has joined a group at the old owner; the new one has loaded nothing yet."""
    loop = VirtualTimeLoop()

    async def main() -> None:
        old = Cluster(CONFIG, shard_count=1)
        member = kind()
        await member.join(old)
        new = old.take_over()
        await story(member, old, new)
        await old.coordinator.close()
        await new.coordinator.close()

    loop.run_until_complete(Process(loop, "coordinators").spawn(main()))
    assert loop.failures == []
    loop.discard()


def proofs_of(cluster: Cluster, fails_with: Exception | None = None) -> list[float]:
    """When each was begun from now on."""
    log = cast(Any, cluster.coordinator.directory.ready[0].state_log.log)
    prove, begun = log.prove_ownership, []

    async def noted() -> None:
        begun.append(asyncio.get_running_loop().time())
        if fails_with is not None:
            raise fails_with
        await prove()

    log.prove_ownership = noted
    return begun


def cut_off(cluster: Cluster) -> None:
    """Its proofs are never answered, nor refused."""
    log = cast(Any, cluster.coordinator.directory.ready[0].state_log.log)
    log.prove_ownership = asyncio.Event().wait


def now_s() -> float:
    return asyncio.get_running_loop().time()


# ---------------------------------------------------------------- decisions


@given(st.floats(-1e9, 1e9), st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0, 1e5))
def test_no_session_ends_at_the_next_owner_before_what_a_former_one_said(
    proven_ms: float, loaded_after_ms: float, asked_after_ms: float, session_ms: float
) -> None:
    """The next owner loads the shard after the last proof that succeeded was begun."""
    loaded_ms, asked_ms = proven_ms + loaded_after_ms, proven_ms + asked_after_ms
    if proof_age(proven_ms, asked_ms) is not ProofAge.OVER:
        assert asked_ms + session_ms <= sessions_from_ms(loaded_ms) + session_ms


def test_a_proof_fades_before_it_is_over() -> None:
    ages = [proof_age(1_000.0, 1_000.0 + age_ms) for age_ms in (-5, 0, PROOF_RENEWAL_AGE_MS, PROOF_AGE_MAX_MS)]
    assert ages == [ProofAge.YOUNG, ProofAge.YOUNG, ProofAge.FADING, ProofAge.OVER]
    assert proof_age(float("-inf"), 0.0) is ProofAge.OVER


# ---------------------------------------------------------------- a former owner


@each_kind
def test_a_former_owner_does_not_tell_a_member_to_go_on_for_long(kind: Callable[[], Member]) -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        assert await member.beat(old) == GO_ON
        cut_off(old)
        await new.coordinator.prepare("g")
        await asyncio.sleep(AGE_S - 0.01)
        assert await member.beat(old) == GO_ON
        await asyncio.sleep(0.02)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(member.beat(old), 60)

    run(kind, story)


@each_kind
@pytest.mark.parametrize("slept_s", [AGE_S + 0.1, 4.9, 60.0])
def test_a_proof_ages_while_the_machine_sleeps(kind: Callable[[], Member], slept_s: float) -> None:
    """The event loop's clock stands still meanwhile, and the stall watch leaves what is shorter than 5 s alone."""

    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        for _ in range(2):  # the second one repeats the first
            assert await member.beat(old) == GO_ON
        cut_off(old)
        await new.coordinator.prepare("g")
        old.clock.sleep(slept_s)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(member.beat(old), 60)

    run(kind, story)


@each_kind
def test_a_former_owner_that_asks_sends_members_away(kind: Callable[[], Member]) -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        assert await member.beat(old) == GO_ON
        await new.coordinator.prepare("g")
        await asyncio.sleep(AGE_S + 0.01)
        assert await member.beat(old) == MOVED
        assert await member.beat(new) == GO_ON

    run(kind, story)


@each_kind
def test_a_former_owner_lets_nobody_join(kind: Callable[[], Member]) -> None:
    """However young its proof is: who joins says no epoch, and would be given what it had before."""

    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        assert await member.beat(old) == GO_ON
        await new.coordinator.prepare("g")
        await asyncio.sleep(0.001)
        assert await member.join_again(old) == MOVED

    run(kind, story)


@pytest.mark.parametrize("kind", [Classic, ClassicAmongConsumers])
def test_nor_does_it_say_that_a_member_is_unknown(kind: Callable[[], Member]) -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        await new.coordinator.prepare("g")
        await asyncio.sleep(0.001)
        member.member_id = "of-the-next-owner"
        assert await member.join_again(old) == MOVED

    run(kind, story)


@each_kind
def test_who_joins_again_at_the_owner_waits_for_one_proof_at_most(kind: Callable[[], Member]) -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        await asyncio.sleep(0.001)
        proofs = proofs_of(old)
        assert await member.join_again(old) == GO_ON
        assert len(proofs) <= 1

    run(kind, story)


@pytest.mark.parametrize("kind", [Classic, ClassicAmongConsumers])
def test_a_former_owner_refuses_no_classic_member(kind: Callable[[], Member]) -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        await new.coordinator.prepare("g")
        member.epoch += 1  # as it may be at the next owner
        assert await member.beat(old) == MOVED

    run(kind, story)


@each_kind
@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_former_owner_refuses_no_commit(kind: Callable[[], Member], is_transactional: bool) -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        await new.coordinator.prepare("g")
        commit = old.commit_in_transaction if is_transactional else old.commit
        epoch = member.epoch + 1  # as it may be at the next owner
        codes = await commit("g", {("t", 0): 1}, member_id=member.member_id, generation=epoch)
        assert codes["t", 0] == MOVED

    run(kind, story)


@pytest.mark.parametrize("kind", [Classic, ClassicAmongConsumers])
def test_nobody_leaves_at_a_former_owner(kind: Callable[[], Member]) -> None:
    """The next owner would keep the member's partitions for it until its session ends."""

    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        assert await member.beat(old) == GO_ON
        await new.coordinator.prepare("g")
        await asyncio.sleep(0.001)
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member.member_id)])
        assert (await old.coordinator.classic.leave_group(request, request_context(4))).error_code == MOVED
        assert (await new.coordinator.classic.leave_group(request, request_context(4))).members[0].error_code == GO_ON
        assert not has_member(new, member)

    run(kind, story)


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "connect"},
        {"protocols": [JoinGroupRequestProtocol(name="sticky", metadata=classic_subscription("t"))]},
    ],
)
@pytest.mark.parametrize("kind", [Streams, Classic, ClassicAmongConsumers])
def test_a_former_owner_refuses_no_protocol(kind: Callable[[], Member], fields: dict[str, Any]) -> None:
    """Those of the next owner's group may be others, and a client that is refused for them gives up."""

    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        await new.coordinator.prepare("g")
        await asyncio.sleep(0.001)
        assert (await old.join(session_ms=SESSION_MS, **fields)).error_code == MOVED

    run(kind, story)


@each_kind
def test_a_store_that_does_not_answer_is_no_reason_to_join_again(kind: Callable[[], Member]) -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        proofs_of(old, StorageUnavailable("no NameNode"))
        await asyncio.sleep(AGE_S)
        assert await member.beat(old) == ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(kind, story)


# ---------------------------------------------------------------- the next owner


@pytest.mark.parametrize("kind", ALONE)
def test_the_next_owner_waits_for_what_the_former_one_said_last(kind: Callable[[], Member]) -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        await new.coordinator.prepare("g")
        shard = new.coordinator.directory.ready[0]
        await asyncio.sleep(AGE_S + SESSION_MS / 1000 - 0.01)
        assert has_member(new, member)
        await asyncio.sleep(0.1)
        assert not has_member(new, member)
        assert shard.state_log.proven_ms > 0

    run(kind, story)


@pytest.mark.parametrize("kind", ALONE)
def test_a_member_that_turns_back_to_a_former_owner_keeps_its_session(kind: Callable[[], Member]) -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        assert await member.beat(old) == GO_ON
        await new.coordinator.prepare("g")
        assert await member.beat(new) == GO_ON
        await asyncio.sleep(RENEWAL_S - 0.01)
        assert await member.beat(old) == GO_ON
        await asyncio.sleep(SESSION_MS / 1000 - 0.01)
        assert has_member(new, member)

    run(kind, story)


def test_an_upgrade_does_not_shorten_the_session_of_a_member_that_turns_back_to_a_former_owner() -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        assert await member.beat(old) == GO_ON
        await new.coordinator.prepare("g")
        other = Consumer()
        other.member_id = "B"
        await other.join(new)
        await asyncio.sleep(AGE_S - 0.01)
        assert await member.beat(old) == GO_ON
        await asyncio.sleep(SESSION_MS / 2_000)
        assert await other.beat(new) == GO_ON
        await asyncio.sleep(SESSION_MS / 2_000 - 0.01)
        assert has_member(new, member)

    run(Classic, story)


@pytest.mark.parametrize("kind", ALONE)
def test_who_joins_at_an_owner_has_a_usual_session(kind: Callable[[], Member]) -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        other = kind()
        other.member_id = "C"
        empty = Cluster(CONFIG, shard_count=1)
        await other.join(empty)
        await asyncio.sleep(SESSION_MS / 1000 - 0.01)
        assert has_member(empty, other)
        await asyncio.sleep(0.1)
        assert not has_member(empty, other)
        await empty.coordinator.close()

    run(kind, story)


def has_member(cluster: Cluster, member: Member) -> bool:
    shard = cluster.coordinator.directory.ready[0]
    classic = shard.groups.get("g")
    _, group = shard.find_new("g")
    return member.member_id in (group.members if group is not None else classic.members if classic else {})


ASKS = st.lists(st.tuples(st.floats(0.01, 4.0), st.booleans()), max_size=12)


@pytest.mark.parametrize("kind", [Consumer, Streams, Classic, ClassicAmongConsumers])
@given(before=ASKS, after=ASKS)
@settings(max_examples=30, deadline=None)
def test_no_member_is_put_out_while_its_session_lasts_whomever_it_asks(
    kind: Callable[[], Member], before: list[tuple[float, bool]], after: list[tuple[float, bool]]
) -> None:
    """It counts from when it last asked somebody who told it to go on."""

    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        told_s = now_s()

        async def ask(cluster: Cluster) -> None:
            nonlocal told_s
            asked_s = now_s()
            if asked_s < told_s + SESSION_MS / 1000 and await asyncio.wait_for(member.beat(cluster), 1) == GO_ON:
                told_s = asked_s

        for pause_s, _ in before:
            await asyncio.sleep(pause_s)
            await ask(old)
        if asyncio.get_running_loop().time() >= told_s + SESSION_MS / 1000:
            return
        await new.coordinator.prepare("g")
        for pause_s, is_old in after:
            await asyncio.sleep(pause_s)
            await ask(old if is_old else new)
        await asyncio.sleep(max(told_s + SESSION_MS / 1000 - 0.001 - now_s(), 0))
        assert now_s() >= told_s + SESSION_MS / 1000 or has_member(new, member)

    run(kind, story)


# ---------------------------------------------------------------- what it costs


def test_where_many_ask_one_proof_is_made_for_all_and_nobody_waits() -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        old.clock.advance(60_000)  # it is settled
        wire = Wire(old)
        frame = frame_of("A", member.epoch)
        assert (await wire.ask(frame)).error_code == GO_ON
        begun = proofs_of(old)
        for _ in range(100):
            await asyncio.sleep(INTERVAL_S)
            for _ in range(20):
                assert wire.again(frame) is not None
        assert len(begun) <= 100 * INTERVAL_S / RENEWAL_S
        await asyncio.sleep(60)
        assert begun[-1] < now_s() - 58, "none is made while nobody asks"

    run(Consumer, story)


def test_a_repeated_heartbeat_is_answered_for_as_long_as_a_proof_lasts() -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        old.clock.advance(60_000)
        wire = Wire(old)
        frame = frame_of("A", member.epoch)
        assert (await wire.ask(frame)).error_code == GO_ON
        cut_off(old)
        await asyncio.sleep(AGE_S - 0.01)
        assert wire.again(frame) is not None
        await asyncio.sleep(0.02)
        assert wire.again(frame) is None

    run(Consumer, story)


def test_a_renewal_finds_out_who_owns_the_shard() -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        old.clock.advance(60_000)
        wire = Wire(old)
        frame = frame_of("A", member.epoch)
        assert (await wire.ask(frame)).error_code == GO_ON
        await new.coordinator.prepare("g")
        await asyncio.sleep(RENEWAL_S)
        assert wire.again(frame) is not None
        await asyncio.sleep(0.01)
        assert wire.again(frame) is None
        assert not old.coordinator.directory.ready

    run(Consumer, story)


def test_a_renewal_that_fails_is_tried_again() -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        begun = proofs_of(old, StorageUnavailable("no NameNode"))
        await asyncio.sleep(RENEWAL_S)
        for count in (1, 2, 3):
            assert await member.beat(old) == GO_ON
            await asyncio.sleep(INTERVAL_S)
            assert len(begun) == count

    run(Consumer, story)


def test_what_became_durable_is_a_proof() -> None:
    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        begun = proofs_of(old)
        for number in range(20):
            await asyncio.sleep(RENEWAL_S - 0.1)
            assert await old.commit("other", {("t", 0): number}) == {("t", 0): 0}
            assert await member.beat(old) == GO_ON
        assert begun == []

    run(Consumer, story)


def test_a_heartbeat_that_was_written_is_not_sent_elsewhere() -> None:
    """Its own append is the proof, however long that takes: NOT_COORDINATOR would have it sent again (rule 33)."""

    async def story(member: Member, old: Cluster, new: Cluster) -> None:
        log = old.log_of("g")
        log.is_acknowledging = False
        member.member_id, member.epoch = "B", 0
        joining = asyncio.ensure_future(member.join(old))
        await asyncio.sleep(AGE_S + 1)
        begun = proofs_of(old)
        log.acknowledge()
        await joining
        assert member.epoch > 0
        assert begun == []

    run(Consumer, story)
