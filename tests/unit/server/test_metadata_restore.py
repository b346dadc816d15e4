"""A cluster that begins with the metadata of another one has it whole, or no server starts on its root."""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

import pytest

from bmq.log.names import EpochListing, partition_directory
from bmq.log.root import RootForeign, open_root, read_root
from bmq.log.store import SegmentStore
from bmq.membership.controller_leadership import METADATA
from bmq.metadata.stored_image import stored_image
from bmq.protocol.metadata_records import MetadataRecord, PartitionRecord, TopicRecord
from bmq.server.metadata_restore import FIRST_EPOCH, restore_metadata
from bmq.server.start_retry import StartRetry
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore, Faults
from tests.unit.broker.world import SETTINGS, virtual

pytestmark = pytest.mark.unit

TOPICS = 1_500  # more than one append takes
RECORDS: tuple[MetadataRecord, ...] = tuple(
    record
    for number in range(TOPICS)
    for record in (
        TopicRecord(name=f"t{number}", topic_id=UUID(int=number + 10)),
        PartitionRecord(partition_id=0, topic_id=UUID(int=number + 10), leader_epoch=3),
    )
)


async def restore(store: SegmentStore, cluster_id: str = "cluster") -> None:
    await restore_metadata(
        store, RECORDS, cluster_id, clock=FakeClock(), random=Random(1), settings=SETTINGS, retry=StartRetry(1_000)
    )


def test_all_is_there_below_the_epoch_of_any_controller() -> None:
    async def main() -> None:
        fake = FakeStore()
        await restore(fake.client("operator"))
        store = fake.client("node")
        assert (await read_root(store)).cluster_id == "cluster"
        image = await stored_image(store)
        assert len(image.topics) == TOPICS and image.topics["t7"].topic_id == UUID(int=17)
        listing = EpochListing.of(await store.list_directory(partition_directory(METADATA)))
        assert (set(listing.sealed_epochs), set(listing.open_epochs)) == ({FIRST_EPOCH}, set())

    virtual(main)


def test_a_root_with_a_cluster_is_left_alone() -> None:
    async def main() -> None:
        fake = FakeStore()
        await open_root(fake.client("node"), holder="node", new_cluster_id="first")
        before = fake.files()
        with pytest.raises(RootForeign, match="has a cluster already"):
            await restore(fake.client("operator"))
        assert fake.files() == before

    virtual(main)


def test_no_server_starts_on_half_of_it() -> None:
    async def main() -> None:
        fake = FakeStore(Random(1), Faults(request_s=(0.01, 0.01), append_s=(1.0, 1.0)))
        operator = fake.client("operator")
        task = asyncio.ensure_future(restore(operator))
        await asyncio.sleep(3)
        assert any(path.endswith(".log") for path in fake.files()) and not task.done()
        operator.kill()
        store = fake.client("node")
        with pytest.raises(RootForeign, match="restore that file"):
            await open_root(store, holder="node", new_cluster_id="first")
        with pytest.raises(RootForeign, match="name an empty directory, or empty this one"):
            await restore(fake.client("operator-2"))
        assert not task.done()

    virtual(main)
