"""What a new owner finds is as durable, and on as many nodes, as the topic demands before anything is answered from it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bmq.broker.own_directory import OwnDirectory
from bmq.log.store import Durability, FencedWriter, StorageUnavailable
from bmq.protocol.error_codes import ErrorCode
from tests.fakes.store import FakeClient, FakeStore, Faults
from tests.unit.broker.world import CONFIG, World, append, produce, sequenced, virtual

pytestmark = pytest.mark.unit

TWO = replace(CONFIG, min_insync_replicas=2)


class AskedClient(FakeClient):
    """Notes what it is asked to close. `lost_replies`: so many times the answer never arrives."""

    asked: list[tuple[str, Durability]]
    lost_replies: int

    async def take_over(
        self, path: str, *, previous_holder: str | None, durability: Durability = Durability.HFLUSH
    ) -> int:
        self.asked.append((path.partition("/0/")[2], durability))
        length_bytes = await super().take_over(path, previous_holder=previous_holder, durability=durability)
        if self.lost_replies:
            self.lost_replies -= 1
            raise StorageUnavailable("the reply was lost")
        return length_bytes


class AskedStore(FakeStore):
    lost_replies = 0

    def client(self, name: str) -> FakeClient:
        client = AskedClient(self, name)
        client.asked = []
        client.lost_replies, self.lost_replies = self.lost_replies, 0
        self.clients.append(client)
        return client


def asked_of(client: FakeClient) -> list[tuple[str, Durability]]:
    assert isinstance(client, AskedClient)
    return client.asked


@pytest.mark.parametrize("durability", list(Durability))
def test_what_a_start_closes_is_asked_for_with_the_durability_of_the_topic(durability: Durability) -> None:
    async def main() -> None:
        world = World()
        world.store = AskedStore(world.random)
        config = replace(CONFIG, durability=durability)
        old = world.owner(config)
        await produce(await old.log(), b"a")
        old.kill()
        new = world.owner(config)
        assert (await new.log()).high_watermark == 1
        assert asked_of(new.client) == [("00000001/00000000.log", durability)]

    virtual(main)


@pytest.mark.parametrize("durability", list(Durability))
def test_the_next_owner_asks_again_when_one_died_right_after_it_had_closed_a_file(durability: Durability) -> None:
    """The file shows as closed then; whether it was synced, nobody can see."""

    async def main() -> None:
        world = World(backoff_first_s=100.0, backoff_max_s=100.0)
        world.store = store = AskedStore(world.random)
        config = replace(CONFIG, durability=durability)
        old = world.owner(config)
        await produce(await old.log(), b"a")
        old.kill()
        store.lost_replies = 1
        died = world.owner(config)
        starting = asyncio.ensure_future(died.log())
        await asyncio.sleep(1)
        assert not starting.done()
        assert [name for name, _ in asked_of(died.client)] == ["00000001/00000000.log"]
        died.kill()
        starting.cancel()
        new = world.owner(config)
        assert (await new.log()).high_watermark == 1
        assert ("00000001/00000000.log", Durability.HSYNC) in asked_of(new.client) or durability is Durability.HFLUSH

    virtual(main)


def test_a_node_that_is_down_does_not_count_although_the_store_goes_on_listing_it() -> None:
    async def main() -> None:
        world = World(0, Faults(append_s=(0.001, 0.001)))
        old = world.owner(TWO)
        assert (await append(await old.log(), sequenced(0, b"a"))).error_code is ErrorCode.NONE
        old.kill()
        log = await world.owner(TWO).log()
        path = next(path for path, data in world.store.files().items() if path.endswith(".log") and data)
        for name in tuple(world.store.namespace.file(path).replicas)[1:]:
            world.store.lose_node(name)
        assert (await append(log, sequenced(0, b"a"))).error_code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        world.return_nodes()
        answer = await append(log, sequenced(0, b"a"))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)

    virtual(main)


async def test_a_look_at_the_own_directory_is_one_that_a_replaced_server_cannot_answer() -> None:
    class OldServer(FakeClient):
        """Reads show the past; what has to be changed first shows the present."""

        async def prove(self, path: str) -> None:
            return None

    store = FakeStore()
    store.put_file("5.open/owner", b"")
    client = OldServer(store, "a")
    found = await client.status("5.open")
    assert found is not None
    directory = OwnDirectory(client, "5.open")
    directory.file_id = found.file_id
    with pytest.raises(FencedWriter):
        await directory.verify_claim()
