"""The active controller's leadership: taken, lost, taken over, and refused when the election knows less than the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

import pytest

from bmq.broker.manager import PartitionManager
from bmq.controller.config import ControllerConfig
from bmq.controller.runtime import Controller
from bmq.election.election import ControllerClaim, Member, MetadataMark
from bmq.log.damage import Damage, accept
from bmq.log.epoch_history import EpochHistory
from bmq.log.partition_log import PartitionLog
from bmq.membership.controller_leadership import METADATA, METADATA_LOG, ControllerLeadership, ElectionBehindLog
from bmq.membership.metadata_seen import Witness, missing_end
from bmq.membership.settings import ClusterSettings
from bmq.metadata.image import Node
from bmq.protocol.error_codes import ErrorCode
from tests.fakes.clock import FakeClock
from tests.fakes.election import FakeElection, FakeElectionService
from tests.fakes.store import FakeClient, FakeStore
from tests.simulation.process import Process
from tests.unit.broker.world import virtual
from tests.unit.internode_client.waiting import until

pytestmark = pytest.mark.unit

Witnesses = Callable[[ControllerClaim], Awaitable[Sequence[Witness]]]


class Candidate:
    """A process that may become the active controller. `led`: controllers it had, None for each end."""

    def __init__(self, world: World, node_id: int, witnesses: Witnesses | None = None) -> None:
        self.witnesses = witnesses
        self.name = f"node-{node_id}-{len(world.candidates)}"
        self.process = Process(world.loop, self.name)  # type: ignore[arg-type]
        self.client: FakeClient = world.store.client(self.name)
        self.election: FakeElection = world.elections.session(node_id)
        self.process.on_kill(self.client.kill)
        self.process.on_kill(self.election.kill)
        self.led: list[Controller | None] = []
        self.node = Node(node_id, "host", node_id)
        self.started = self.process.spawn(self._start(world))

    async def _start(self, world: World) -> None:
        self.manager = PartitionManager(self.client, self.name, world.clock, Random(1))
        await self.election.start("cluster")
        self.leadership = ControllerLeadership(
            self.election,
            Member(self.node.node_id, self.name, "host", self.node.node_id),
            self.manager,
            self.client,
            lambda log, epoch: self._make(world, log, epoch),
            self._changed,
            ClusterSettings().retry_backoff(Random(2)),
            self.witnesses,
        )
        self.run = self.process.spawn(self.leadership.run())

    def _make(self, world: World, log: PartitionLog, epoch: int) -> Controller:
        config = ControllerConfig(cluster_id="cluster")
        return Controller(log, self.client, self.node, world.clock, Random(3), config, lambda *_: None, epoch=epoch)  # type: ignore[arg-type]

    async def _changed(self, controller: Controller | None) -> None:
        self.led.append(controller)

    async def close(self) -> None:
        self.run.cancel()
        await asyncio.wait({self.run})
        await self.leadership.close()
        await self.manager.close()
        await self.election.close()


class World:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.store = FakeStore(Random(4))
        self.elections = FakeElectionService(self.loop, Random(5), session_timeout_s=2.0, start_wait_s=5.0)
        self.clock = FakeClock()
        self.candidates: list[Candidate] = []

    async def candidate(self, node_id: int, witnesses: Witnesses | None = None) -> Candidate:
        self.candidates.append(Candidate(self, node_id, witnesses))
        await self.candidates[-1].started
        return self.candidates[-1]

    async def until(self, condition: Callable[[], object], limit_s: float = 30.0) -> None:
        await until(condition, limit_s, pause_s=0.01)


def test_one_leads_and_the_next_takes_over_under_a_higher_epoch() -> None:
    async def main() -> None:
        world = World()
        first, second = await world.candidate(1), await world.candidate(2)
        await world.until(lambda: first.leadership.active or second.leadership.active)
        if second.leadership.active is not None:
            first, second = second, first
        assert second.leadership.active is None and second.leadership.epoch == -1
        epoch = first.leadership.epoch
        first.process.kill()
        await world.until(lambda: second.leadership.active)
        assert second.leadership.epoch > epoch
        assert second.manager.leader_epoch(METADATA) == second.leadership.epoch
        await second.close()
        assert second.led[-1] is None

    virtual(main)


def test_a_suspected_controller_is_deposed_at_once() -> None:
    """If it lives after all it may be elected again, under a higher epoch."""

    async def main() -> None:
        world = World()
        first = await world.candidate(1)
        await world.until(lambda: first.leadership.active)
        second = await world.candidate(2)
        await world.until(lambda: second.election.leader)
        claim, began_s = second.election.leader, world.loop.time()
        assert claim is not None
        second.leadership.suspect(claim)
        await world.until(lambda: max(first.leadership.epoch, second.leadership.epoch) > claim.epoch)
        assert world.loop.time() - began_s < 1.5  # the session timeout is 2 s
        assert None in first.led
        epoch = max(first.leadership.epoch, second.leadership.epoch)
        second.leadership.suspect(claim)  # of old: nothing comes of it
        await asyncio.sleep(1)
        assert max(first.leadership.epoch, second.leadership.epoch) == epoch
        await first.close()
        await second.close()

    virtual(main)


def test_a_controller_that_lost_its_log_steps_down_without_being_told() -> None:
    async def main() -> None:
        world = World()
        first = await world.candidate(1)
        await world.until(lambda: first.leadership.active)
        epoch = first.leadership.epoch
        thief = PartitionManager(world.store.client("thief"), "thief", world.clock, Random(9))
        thief.assign(METADATA, epoch + 1, "__cluster_metadata", METADATA_LOG)
        await thief.leader_of(METADATA)
        await world.until(lambda: first.led[-1] is None)
        await thief.close()
        # It campaigns again, under the next epoch of the counter, which the log has seen already; the one after does.
        await world.until(lambda: first.leadership.failed.done() or first.leadership.active)
        assert not first.leadership.failed.done() or isinstance(first.leadership.failed.exception(), ElectionBehindLog)
        await first.close()

    virtual(main)


def test_an_election_that_forgot_its_epochs_is_refused_with_what_to_do() -> None:
    async def main() -> None:
        world = World()
        for _ in range(3):
            candidate = await world.candidate(1)
            await world.until(lambda candidate=candidate: candidate.leadership.active)  # type: ignore[misc]
            await candidate.close()
        world.elections.wipe()
        late = await world.candidate(1)
        await world.until(lambda: late.leadership.failed.done())
        with pytest.raises(ElectionBehindLog, match=r"epoch 1, but .* epoch 3: .*bmq cluster raise-epoch --to 3"):
            late.leadership.failed.result()
        assert late.leadership.active is None
        assert await late.election.raise_epoch(3) == 3
        await late.close()
        again = await world.candidate(1)
        await world.until(lambda: again.leadership.active)
        assert again.leadership.epoch == 4
        await again.close()

    virtual(main)


def test_requests_to_a_controller_that_ended_are_refused() -> None:
    async def main() -> None:
        world = World()
        first = await world.candidate(1)
        await world.until(lambda: first.leadership.active)
        controller = first.leadership.active
        assert controller is not None
        await first.close()
        with pytest.raises(Exception, match="not the active controller") as caught:
            await controller.allocate_producer_ids()
        assert caught.value.code is ErrorCode.NOT_CONTROLLER  # type: ignore[attr-defined]

    virtual(main)


async def _with_records(world: World) -> tuple[int, int]:
    """A controller led and wrote, and is gone; its epoch and the end of the metadata log."""
    first = await world.candidate(1)
    await world.until(lambda: first.leadership.active)
    controller = first.leadership.active
    assert controller is not None
    for _ in range(5):
        await controller.allocate_producer_ids()
    end_offset = controller.image.offset
    await asyncio.sleep(2.5)  # the mark follows within a second
    epoch = controller.epoch
    first.process.kill()
    return epoch, end_offset


def _lose_the_end(world: World, epoch: int) -> None:
    """What a power failure does to bytes that were not on disk: the segment's records are gone."""
    path = next(path for path in world.store.files() if f"{epoch:08d}" in path and path.endswith(".log"))
    segment = world.store.namespace.file(path)
    del segment.data[200:]
    segment.synced_bytes = min(segment.synced_bytes, 200)
    segment.replicas = dict.fromkeys(segment.replicas, 200)


def test_a_metadata_log_that_ends_below_the_mark_waits_for_an_operator() -> None:
    """All processes are new and know nothing; only ZooKeeper remembers how far the log went."""

    async def main() -> None:
        world = World()
        epoch, end_offset = await _with_records(world)
        assert world.elections.mark == MetadataMark(epoch, end_offset)
        _lose_the_end(world, epoch)
        second = await world.candidate(2)
        await world.until(lambda: second.leadership.refused)
        damage = second.leadership.refused
        assert damage is not None
        assert f"ZooKeeper has seen everything below {end_offset} under epoch {epoch}" in damage.sentence
        await asyncio.sleep(180)
        assert second.leadership.active is None and second.led == []
        assert world.elections.epoch < epoch + 8, "each try makes a directory: not too many of them"
        await accept(world.store.client("operator"), damage, holder="operator", now_ms=1)
        await world.until(lambda: second.leadership.active, limit_s=90)
        assert second.leadership.refused is None
        controller = second.leadership.active
        assert controller is not None
        assert (await controller.allocate_producer_ids()).start >= 5_000, "ids that the lost records gave out"
        await asyncio.sleep(2.5)
        # The next one finds the mark of the epoch that was accepted, and has nothing to complain about.
        second.process.kill()
        third = await world.candidate(3)
        await world.until(lambda: third.leadership.active)
        await third.close()

    virtual(main)


def test_a_metadata_log_that_ends_below_what_a_node_has_waits_for_an_operator() -> None:
    """The mark may be a moment old; a living node is not."""

    async def main() -> None:
        world = World()
        epoch, end_offset = await _with_records(world)
        seen = [Witness("node 7", MetadataMark(epoch, end_offset + 1))]

        async def ask(claim: ControllerClaim) -> list[Witness]:
            return seen

        second = await world.candidate(2, ask)
        await world.until(lambda: second.leadership.refused)
        assert second.leadership.refused is not None
        assert f"node 7 has seen everything below {end_offset + 1}" in second.leadership.refused.sentence
        seen[0] = Witness("node 7", MetadataMark(epoch, end_offset))
        await world.until(lambda: second.leadership.active, limit_s=90)  # it was restored: no operator needed
        await second.close()

    virtual(main)


def test_what_was_seen_of_an_earlier_epoch_is_compared_with_its_end() -> None:
    """Later records do not make up for those that are gone."""
    starts = EpochHistory([(1, 0), (4, 90)])

    def damage(*witnesses: Witness) -> Damage | None:
        missing = missing_end("topics/m/0", lambda epoch: starts.end_offset_for(epoch, 120), 120, witnesses)
        return None if missing is None else missing.damage

    assert damage() is None
    assert damage(Witness("node 1", MetadataMark(1, 90)), Witness("node 2", MetadataMark(4, 120))) is None
    assert damage(Witness("node 1", MetadataMark(-1, -1))) is None
    lost = damage(Witness("node 1", MetadataMark(1, 95)), Witness("node 2", MetadataMark(3, 100)))
    assert lost is not None and lost.name == "end.00000090" and "node 2" in lost.sentence
    above = damage(Witness("node 1", MetadataMark(4, 121)))
    assert above is not None and above.name == "end.00000120"
    unknown = damage(Witness("node 1", MetadataMark(9, 121)))
    assert unknown is not None and unknown.name == "end.00000120"


@pytest.mark.parametrize("file_name", ["manifest.00000000", "snapshot.00000000"])
def test_damaged_metadata_is_not_activated(file_name: str) -> None:
    async def main() -> None:
        world = World()
        for _ in range(2):  # the second snapshot replaces what the first epoch wrote
            candidate = await world.candidate(1)
            await world.until(lambda candidate=candidate: candidate.leadership.active)  # type: ignore[misc]
            await candidate.leadership.active.allocate_producer_ids()  # type: ignore[union-attr]
            await candidate.close()
        newest = max(path for path in world.store.files() if "manifest" in path).rpartition("/")[0]
        paths = sorted(path for path in world.store.files() if path.startswith(newest) and file_name[:8] in path)
        world.store.flip_bit(paths[-1], 50)
        second = await world.candidate(2)
        await world.until(lambda: second.leadership.refused, limit_s=60)
        damage = second.leadership.refused
        assert damage is not None and paths[-1].rpartition("/")[2] in damage.sentence
        assert second.leadership.active is None
        await accept(world.store.client("operator"), damage, holder="operator", now_ms=1)
        await world.until(lambda: second.leadership.active, limit_s=90)
        log = second.manager.ready(METADATA)
        assert log is not None
        if file_name.startswith("snapshot"):
            # The log begins with the epoch that goes on without: no node can go on from what it had before.
            starts = dict(log.epoch_starts)
            await world.until(lambda: log.log_start_offset >= starts[second.leadership.epoch] > 0)
        await second.close()
        third = await world.candidate(3)
        await world.until(lambda: third.leadership.active)
        await third.close()

    virtual(main)


def test_a_lost_metadata_log_is_not_begun_anew_beside_topics() -> None:
    async def main() -> None:
        world = World()
        client = world.store.client("x")
        await client.make_directories("topics/1777eceb-5eb6-49a7-b0be-0729bc649a35/0")
        first = await world.candidate(1)
        await world.until(lambda: first.leadership.refused, limit_s=60)
        assert first.leadership.refused is not None
        assert "there are files of 1 topics (1777eceb-5eb6-49a7-b0be-0729bc649a35)" in first.leadership.refused.sentence
        await accept(client, first.leadership.refused, holder="operator", now_ms=1)
        await world.until(lambda: first.leadership.active, limit_s=90)
        await first.close()

    virtual(main)
