"""What `bmq log accept-loss` tells an operator before and after the decision."""

from __future__ import annotations

import pytest

from bmq.cli.loss import NoSuchEnd, NoSuchPartition, describe_loss
from bmq.log.damage import StateDamaged, accept, end_damage, require_accepted
from bmq.log.names import partition_directory
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import METADATA_TOPIC_ID
from tests.fakes.store import FakeStore
from tests.unit.broker.world import CONFIG, World, append, batch_of, virtual

pytestmark = pytest.mark.unit

METADATA = TopicPartition(METADATA_TOPIC_ID, 0)
DIRECTORY = partition_directory(METADATA)


def test_an_end_that_is_too_low_is_accepted_as_the_error_says() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(CONFIG)
        owner.manager.assign(METADATA, 1, "__cluster_metadata", CONFIG)
        log = await owner.manager.leader_of(METADATA)
        for _ in range(3):
            await append(log, batch_of(b"x"))
        store = world.store.client("operator")
        damage = end_damage(DIRECTORY, 3, "but node 2 has seen everything below 9 under epoch 1")
        with pytest.raises(StateDamaged, match=f"bmq log accept-loss {DIRECTORY} --end 3 --dry-run"):
            await require_accepted(store, damage)
        nothing = await describe_loss(store, DIRECTORY)
        assert nothing.damages == () and "there is no loss to accept" in nothing.lines[-1]
        with pytest.raises(NoSuchEnd, match=r"holds offsets \[0, 3\): no 4"):
            await describe_loss(store, DIRECTORY, 4)
        loss = await describe_loss(store, DIRECTORY, 3)
        assert [one.name for one in loss.damages] == [damage.name]
        assert "without that the log holds offsets [0, 3)" in loss.lines
        await accept(store, loss.damages[0], holder="operator", now_ms=1)
        await require_accepted(store, damage)
        again = await describe_loss(store, DIRECTORY, 3)
        assert again.damages == () and f"accepted before: {damage.name}" in again.lines

    virtual(main)


@pytest.mark.parametrize(
    "partition", ["topics", "orders/0", "topics/no-uuid/0", "topics/1777eceb-5eb6-49a7-b0be-0729bc649a35/x"]
)
def test_another_directory_is_refused(partition: str) -> None:
    async def main() -> None:
        with pytest.raises(NoSuchPartition, match="is no partition's directory"):
            await describe_loss(FakeStore().client("operator"), partition)

    virtual(main)


def test_a_partition_that_is_not_there_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(NoSuchPartition, match="there is no partition in"):
            await describe_loss(FakeStore().client("operator"), DIRECTORY)

    virtual(main)
