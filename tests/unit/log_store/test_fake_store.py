"""The fake store keeps the contract, and its faults are the ones it says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from random import Random

import pytest
from hypothesis import given

from bmq.log.store import (
    CorruptFile,
    Durability,
    FencedWriter,
    FileMissing,
    LeaseHeld,
    StorageFull,
    StorageUnavailable,
    WriterBroken,
)
from tests.fakes.store import CHUNK_BYTES, FakeClient, FakeStore, Faults
from tests.fakes.store_writer import AppendFailure
from tests.unit.broker.world import virtual
from tests.unit.log_store.contract import Pair, StoreContract, claimed, create, read_all, sealed, until
from tests.unit.log_store.history import STEPS, Driver, compare

pytestmark = pytest.mark.unit


class TestFakeStoreContract(StoreContract):
    @pytest.fixture
    def pair(self, fake_store: FakeStore) -> Pair:
        return Pair(fake_store.client("owner"), fake_store.client("successor"))


class TestSlowFakeStoreContract(StoreContract):
    """The same with every message taking its own time."""

    @pytest.fixture
    def pair(self) -> Pair:
        store = FakeStore(
            Random(7), Faults(request_s=(0.0, 0.001), append_s=(0.0, 0.001), recover_lease_s=(0.0, 0.002))
        )
        return Pair(store.client("owner"), store.client("successor"))


@given(steps=STEPS)
def test_any_history_is_the_models(steps: list[tuple[object, ...]]) -> None:
    asyncio.run(compare(steps, Driver(FakeStore().client("only"))))


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_broken_writer_keeps_any_prefix_and_mends_to_it() -> None:
    lengths = set()
    for seed in range(30):
        store = FakeStore(Random(seed))
        client = store.client("a")
        path = f"{await claimed(client)}/00000000.log"
        writer = await create(client, path)
        await writer.append([b"acknowledged"])
        answers = [writer.append([b"flying"]) for _ in range(3)]
        writer.break_off()  # type: ignore[attr-defined]
        results = await asyncio.gather(*answers, return_exceptions=True)
        assert all(isinstance(result, WriterBroken) for result in results)
        with pytest.raises(WriterBroken):
            await writer.append([b"later"])
        length_bytes = await writer.mend()
        assert 12 <= length_bytes <= 30
        assert await read_all(client, path, length_bytes) == (b"acknowledged" + b"flying" * 3)[:length_bytes]
        lengths.add(length_bytes)
    assert len(lengths) > 8


async def test_nothing_a_killed_client_waits_for_ends_and_a_prefix_arrives() -> None:
    store = FakeStore(Random(3), Faults(request_s=(0.001, 0.002), append_s=(0.001, 0.002)))
    client, other = store.client("victim"), store.client("other")
    writer = await create(client, "file")
    await writer.append([b"kept"])
    answer = writer.append([b"x" * 1000])
    looking = asyncio.ensure_future(client.status("file"))
    await asyncio.sleep(0)
    client.kill()
    length_bytes = await other.take_over("file", previous_holder=None)
    assert 4 <= length_bytes <= 1004
    await asyncio.sleep(0.01)
    assert not answer.done() and not looking.done()
    looking.cancel()


async def test_a_paused_client_wakes_up_as_a_zombie_and_is_fenced(fake_store: FakeStore) -> None:
    zombie, successor = fake_store.client("zombie"), fake_store.client("successor")
    path = await claimed(zombie)
    writer = await create(zombie, f"{path}/00000000.log")
    await writer.append([b"abc"])
    zombie.pause()
    late_append = writer.append([b"late"])
    late_create = asyncio.ensure_future(create(zombie, f"{path}/00000001.log"))
    await _settle()
    assert not late_append.done()
    await successor.rename(path, sealed(path))
    assert await successor.take_over(f"{sealed(path)}/00000000.log", previous_holder="owner") == 3
    zombie.resume()
    with pytest.raises(FencedWriter):
        await late_append
    with pytest.raises(FileMissing):
        await late_create
    assert fake_store.files() == {f"{sealed(path)}/00000000.log": b"abc"}


async def test_a_block_dropped_before_it_was_connected_swallows_appends(fake_store: FakeStore) -> None:
    """FENCING.md rule 7: acknowledged into nowhere; only the look at the own directory tells."""
    zombie, successor = fake_store.client("zombie"), fake_store.client("successor")
    path = await claimed(zombie)
    creating = asyncio.ensure_future(create(zombie, f"{path}/00000000.log"))
    await until(lambda: f"{path}/00000000.log" in fake_store.files())
    fake_store.namespace.rename(path, sealed(path))
    zombie.pause()
    assert await successor.take_over(f"{sealed(path)}/00000000.log", previous_holder=None) == 0
    zombie.resume()
    writer = await creating
    assert await writer.append([b"swallowed"]) == 9
    await writer.prove_ownership()
    assert await zombie.status(f"{path}/00000000.log") is None
    assert fake_store.files() == {f"{sealed(path)}/00000000.log": b""}
    assert fake_store.counts.ghost_writers == 1
    with pytest.raises(FencedWriter):
        await writer.mend()


async def test_a_named_takeover_refuses_the_late_connection(fake_store: FakeStore) -> None:
    zombie, successor = fake_store.client("zombie"), fake_store.client("successor")
    creating = asyncio.ensure_future(create(zombie, "file"))
    await until(lambda: "file" in fake_store.files())
    zombie.pause()
    await successor.take_over("file", previous_holder="owner")
    zombie.resume()
    with pytest.raises(FileMissing):
        await creating


async def test_a_full_store_takes_what_fits_and_recovers(fake_store: FakeStore) -> None:
    client = fake_store.client("a")
    writer = await create(client, "file")
    await writer.append([b"12345"])
    fake_store.capacity_bytes = 8
    with pytest.raises(StorageFull):
        await writer.append([b"67890"])
    assert await writer.mend() == 8
    with pytest.raises(StorageFull):
        await create(client, "next")
    with pytest.raises(StorageFull):
        await client.write_file("manifest", b"x", holder="a")
    assert await read_all(client, "file", 8) == b"12345678"
    fake_store.capacity_bytes = None
    writer = await create(client, "next")
    assert await writer.append([b"67890"]) == 5


async def test_a_machine_crash_loses_only_what_was_not_synced() -> None:
    kept = set()
    for seed in range(20):
        store = FakeStore(Random(seed))
        client = store.client("a")
        synced = await create(client, "synced", durability=Durability.HSYNC)
        flushed = await create(client, "flushed")
        await synced.append([b"x" * 2 * CHUNK_BYTES])
        await flushed.append([b"y" * 50])
        store.crash_machine()
        assert store.files()["synced"] == b"x" * 2 * CHUNK_BYTES
        kept.add(len(store.files()["flushed"]))
    assert min(kept) < 25 < max(kept) <= 50


async def test_a_machine_crash_may_cost_a_chunk_that_a_writer_would_go_on_in() -> None:
    """Synced or not, while there is a writer that may have been appending (rule 27)."""
    kept = set()
    for seed in range(20):
        store = FakeStore(Random(seed))
        client = store.client("a")
        closed = await create(client, "closed", durability=Durability.HSYNC)
        still_open = await create(client, "open", durability=Durability.HSYNC)
        for writer in (closed, still_open):
            await writer.append([b"x" * (CHUNK_BYTES + 50)])
        await closed.close()
        store.crash_machine()
        assert len(store.files()["closed"]) == CHUNK_BYTES + 50
        kept.add(len(store.files()["open"]))
    assert kept == {CHUNK_BYTES, CHUNK_BYTES + 50}


async def test_what_was_on_its_way_when_power_was_lost_never_arrives() -> None:
    """The NameNode lost power too: what it had not carried out by then it cannot carry out afterwards."""
    for seed in range(20):
        store = FakeStore(Random(seed), Faults(request_s=(0.001, 0.001)))
        store.put_file("draft", b"abc")
        renaming = asyncio.get_running_loop().create_task(store.client("a").rename("draft", "index"))
        await asyncio.sleep(0)
        store.crash_machine()
        await asyncio.sleep(0.01)
        assert set(store.files()) == {"draft"}
        renaming.cancel()


async def test_a_lost_reply_is_a_thing_that_happened() -> None:
    store = FakeStore(Random(0), Faults(lost_reply_rate=1.0))
    client = store.client("a")
    with pytest.raises(StorageUnavailable):
        await client.write_file("file", b"abc", holder="a")
    with pytest.raises(StorageUnavailable):
        await client.make_directory("directory")
    store.faults.lost_reply_rate = 0.0
    assert {s.name for s in await client.list_directory("")} == {"file", "directory"}
    store.faults.unavailable_rate = 1.0
    with pytest.raises(StorageUnavailable):
        await client.make_directory("other")
    store.faults.unavailable_rate = 0.0
    assert await client.status("other") is None


async def test_half_a_takeover_stops_the_writer_and_can_be_repeated() -> None:
    store = FakeStore(Random(0), Faults(half_takeover_rate=1.0))
    owner, successor = store.client("owner"), store.client("successor")
    writer = await create(owner, "file")
    await writer.append([b"abc"])
    with pytest.raises(StorageUnavailable):
        await successor.take_over("file", previous_holder="owner")
    with pytest.raises(FencedWriter):
        await writer.append([b"late"])
    store.faults.half_takeover_rate = 0.0
    assert await successor.take_over("file", previous_holder="owner") == 3


async def test_with_exclusive_leases_a_living_owner_keeps_its_directory() -> None:
    store = FakeStore(is_lease_exclusive=True)
    owner, successor = store.client("owner"), store.client("successor")
    path = await claimed(owner)
    writer = await create(owner, f"{path}/00000000.log")
    for attempt in (
        successor.rename(path, sealed(path)),
        successor.take_over(f"{path}/00000000.log", previous_holder="owner"),
        create(successor, f"{path}/00000001.log"),
    ):
        with pytest.raises(LeaseHeld):
            await attempt
    assert await writer.append([b"abc"]) == 3
    owner.kill()
    await successor.rename(path, sealed(path))
    assert await successor.take_over(f"{sealed(path)}/00000000.log", previous_holder="owner") == 3


async def test_survivors_hold_different_tails_and_a_mend_makes_them_equal() -> None:
    lengths = set()
    for seed in range(20):
        store = FakeStore(Random(seed), Faults(append_s=(0.0, 0.001)))
        client = store.client("a")
        writer = await create(client, "file")
        assert writer.replicas == store.client("b").replicas_wanted == 3
        await writer.append([b"acknowledged"])
        answers = [writer.append([b"flying"]) for _ in range(5)]
        await asyncio.sleep(0)
        store.lose_node(store.nodes.up()[0])
        results = await asyncio.gather(*answers, return_exceptions=True)
        file = store.namespace.file("file")
        assert min(file.replicas.values()) >= max((r for r in results if isinstance(r, int)), default=12)
        survivors = store.nodes.up()
        assert await writer.mend() == max(file.replicas[node] for node in survivors)
        assert writer.replicas == 2 and await client.locate("file") == tuple(survivors)
        assert set(file.replicas.values()) == {len(file.data)}
        lengths.add(len(file.data))
    assert len(lengths) > 5


async def test_bytes_that_only_a_lost_node_has_count_no_more_when_it_returns() -> None:
    store = FakeStore(Random(0))
    client, successor = store.client("a"), store.client("b")
    writer = await create(client, "file")
    await writer.append([b"kept"])
    store.namespace.extend_some(store.namespace.file("file"), b"tail", {store.nodes.up()[0]: 4})
    lost = store.nodes.up()[0]
    store.lose_node(lost)
    assert await successor.take_over("file", previous_holder="owner") == 4
    store.return_node(lost)
    assert store.files()["file"] == b"kept" and len(await client.locate("file")) == 2
    store.replicate()
    assert len(await client.locate("file")) == 3


@pytest.mark.parametrize("is_hung", [False, True])
async def test_a_lost_or_hung_node_breaks_the_writers_on_it(is_hung: bool) -> None:
    store = FakeStore(Random(0), Faults(ack_timeout_s=0.02), node_count=4)
    client = store.client("a")
    writers = [await create(client, f"f{number}") for number in range(8)]
    for writer in writers:
        await writer.append([b"abc"])
    lost = store.nodes.up()[0]
    store.lose_node(lost, is_hung=is_hung)
    for writer in writers:
        if lost not in await client.locate(writer.path):
            assert await writer.append([b"def"]) == 6
            continue
        with pytest.raises(WriterBroken):
            await writer.append([b"def"])
        with pytest.raises(WriterBroken):
            await writer.prove_ownership()
        assert await writer.mend() in range(3, 7)
        assert writer.replicas == 2
    fresh = await create(client, "fresh")
    assert fresh.replicas == 3 and lost not in await client.locate("fresh")


async def test_without_nodes_nothing_is_made_mended_or_read() -> None:
    store = FakeStore(Random(0))
    client = store.client("a")
    writer = await create(client, "file")
    await writer.append([b"abc"])
    for name in store.nodes.up():
        store.lose_node(name)
    await _settle()
    for attempt in (writer.mend(), create(client, "other"), client.take_over("file", previous_holder="owner")):
        with pytest.raises(StorageUnavailable):
            await attempt
    with pytest.raises(StorageUnavailable):
        await read_all(client, "file", 3)
    store.return_node("node-1:9866")
    assert await writer.mend() == 3
    assert writer.replicas == 1
    assert await read_all(client, "file", 3) == b"abc"


async def test_a_new_file_gets_the_nodes_that_are_up() -> None:
    store = FakeStore(Random(0), Faults(fewer_nodes_rate=1.0), node_count=5)
    client = store.client("a")
    assert (await create(client, "few")).replicas in (1, 2)
    store.faults.fewer_nodes_rate = 0.0
    assert (await create(client, "all")).replicas == 3
    for name in store.nodes.up()[:4]:
        store.lose_node(name)
    assert (await create(client, "one")).replicas == 1


async def test_half_a_mend_is_finished_by_the_next() -> None:
    store = FakeStore(Random(0), Faults(half_mend_rate=1.0))
    writer = await create(store.client("a"), "file")
    await writer.append([b"abc"])
    with pytest.raises(StorageUnavailable):
        await writer.mend()
    store.faults.half_mend_rate = 0.0
    assert await writer.mend() == 3


async def test_what_was_held_by_how_many_is_remembered() -> None:
    store = FakeStore(Random(0))
    writer = await create(store.client("a"), "file")
    await writer.append([b"abc"])
    file = store.namespace.file("file")
    for name in store.nodes.up()[:2]:
        store.lose_node(name)
    store.namespace.extend_some(file, b"def", {store.nodes.up()[0]: 3})
    assert await writer.mend() == 6
    assert (file.most_replicas(3), file.most_replicas(6), file.most_replicas(7)) == (3, 1, 0)


async def _random_story(seed: int) -> list[object]:
    store = FakeStore(
        Random(seed),
        Faults(request_s=(0.0, 0.002), append_s=(0.0, 0.002), break_writer_rate=0.1, lost_reply_rate=0.1),
    )
    clients: list[FakeClient] = [store.client("a"), store.client("b")]
    luck = Random(seed + 1)
    story: list[object] = []
    for number in range(15):
        client = luck.choice(clients)
        try:
            writer = await create(client, f"f{number}")
            results = await asyncio.gather(*(writer.append([b"x" * n]) for n in range(9)), return_exceptions=True)
            story.append([r if isinstance(r, int) else type(r).__name__ for r in results])
            story.append(await luck.choice(clients).take_over(f"f{number}", previous_holder="owner"))
        except StorageUnavailable:
            story.append("unavailable")
    return [*story, store.files(), store.counts]


async def test_a_seed_replays() -> None:
    first, second = await _random_story(5), await _random_story(5)
    assert first == second
    assert await _random_story(6) != first


async def _given_up(store: FakeStore, call: Coroutine[object, object, object]) -> None:
    """The caller of `call` gives it up; it waits in the server's queue."""
    store.faults.late_call_rate = 1.0
    with pytest.raises(StorageUnavailable):
        await call
    store.faults.late_call_rate = 0.0


def test_a_call_that_was_given_up_is_carried_out_even_when_its_caller_is_dead() -> None:
    async def main() -> None:
        store = FakeStore(Random(1), Faults(late_call_s=(0.001, 0.002)))
        client, other = store.client("a"), store.client("b")
        await client.make_directory("d")
        await client.write_file("d/old", b"x", holder="a")
        await _given_up(store, client.make_directory("e"))
        await _given_up(store, client.rename("d/old", "d/new"))
        assert await other.status("e") is None
        client.kill()
        await asyncio.sleep(store.faults.late_call_s[1])
        assert not store.late_calls_waiting
        assert set(store.files()) == {"d/new"}
        assert await other.status("e") is not None
        assert store.counts.late_calls == 2

    virtual(main)


def test_a_late_call_that_is_refused_is_nobodys_failure() -> None:
    async def main() -> None:
        store = FakeStore(Random(1), Faults(late_call_s=(0.001, 0.002)))
        client = store.client("a")
        await client.write_file("old", b"x", holder="a")
        await _given_up(store, client.rename("old", "new"))
        assert await client.delete("old")
        await asyncio.sleep(store.faults.late_call_s[1])
        assert not store.late_calls_waiting
        assert await client.status("new") is None

    virtual(main)


def test_a_late_deletion_takes_what_has_the_name_by_then() -> None:
    async def main() -> None:
        store = FakeStore(Random(1), Faults(late_call_s=(0.001, 0.002)))
        client = store.client("a")
        await client.write_file("name", b"first", holder="a")
        await _given_up(store, client.delete("name"))
        await client.rename("name", "kept")
        await client.write_file("name", b"second", holder="a")
        await asyncio.sleep(store.faults.late_call_s[1])
        assert store.files() == {"kept": b"first"}

    virtual(main)


def test_a_late_close_is_refused_under_another_stamp() -> None:
    async def main() -> None:
        store = FakeStore(Random(1), Faults(late_call_s=(0.001, 0.002)))
        client, other = store.client("a"), store.client("b")
        path = f"{await claimed(client)}/00000000.log"
        writer = await create(client, path)
        await writer.append([b"abc"])
        await _given_up(store, writer.close())
        store.faults.half_takeover_rate = 1.0
        with pytest.raises(StorageUnavailable):
            await other.take_over(path, previous_holder="owner")
        await asyncio.sleep(store.faults.late_call_s[1])
        assert not store.late_calls_waiting
        found = await other.status(path)
        assert found is not None
        assert found.is_open

    virtual(main)


async def test_an_old_name_node_shows_the_past_until_somebody_changes_something_there() -> None:
    store = FakeStore(Random(0))
    clients = [store.client(name) for name in "abcdefgh"]
    await clients[0].make_directory("5.open")
    store.fail_over(stale_s=60.0)
    stale = [client for client in clients if client.is_at_old_name_node]
    fresh = [client for client in clients if not client.is_at_old_name_node]
    assert stale
    assert fresh
    await fresh[0].rename("5.open", "5")
    assert await fresh[0].status("5.open") is None
    assert await stale[0].status("5.open") is not None
    assert [entry.name for entry in await stale[0].list_directory("")] == ["5.open"]
    with pytest.raises(FileMissing):
        await stale[0].rename("5.open", "6")
    assert [entry.name for entry in await stale[-1].list_directory("")] == ["5"]
    assert store.counts.stale_answers == 2


async def test_damage_passes() -> None:
    store = FakeStore(Random(2), Faults(unreadable_rate=1.0, unreadable_s=(0.01, 0.01)))
    client = store.client("a")
    await client.write_file("d", b"whole", holder="a")
    with pytest.raises(CorruptFile):
        await client.read_file("d", length_bytes_max=100)
    content = b""
    while not content:
        with contextlib.suppress(CorruptFile):
            content = await client.read_file("d", length_bytes_max=100)
    assert content == b"whole"


async def test_what_was_not_synced_does_not_outlive_the_machines_though_it_was_closed() -> None:
    lengths = set()
    for seed in range(20):
        store = FakeStore(Random(seed), Faults(unsynced_takeover_rate=1.0))
        client, other = store.client("a"), store.client("b")
        path = f"{await claimed(client)}/00000000.log"
        writer = await create(client, path, durability=Durability.HSYNC)
        await writer.append([b"abc"])
        store.extend_file(path, b"def")  # arrived, not synced
        assert await other.take_over(path, previous_holder="owner") == 6
        store.crash_machine()
        lengths.add(len(store.files()[path]))
    assert min(lengths) >= 3
    assert len(lengths) > 1


async def test_what_only_some_replicas_had_may_be_wrong_in_the_longest() -> None:
    store = FakeStore(Random(3), Faults(rotten_tail_rate=1.0))
    client, other = store.client("a"), store.client("b")
    path = f"{await claimed(client)}/00000000.log"
    writer = await create(client, path)
    await writer.append([b"abc"])
    file = store.namespace.file(path)
    store.namespace.extend_some(file, b"defg", {sorted(file.replicas)[0]: 4})
    await other.take_over(path, previous_holder="owner")
    content = store.files()[path]
    assert content[:3] == b"abc"
    assert content[3:] != b"defg"


async def test_a_committed_block_keeps_its_length_and_closes_later() -> None:
    store = FakeStore(Random(4), Faults(committed_rate=1.0))
    client, other = store.client("a"), store.client("b")
    path = f"{await claimed(client)}/00000000.log"
    writer = await create(client, path)
    await writer.append([b"abc"])
    with pytest.raises(StorageUnavailable):
        await writer.close()
    store.faults.committed_rate = 0.0
    assert await other.take_over(path, previous_holder="owner") == 3
    found = await other.status(path)
    assert found is not None
    assert not found.is_open


async def test_an_append_may_raise_with_or_without_having_been_carried_out() -> None:
    contents = set()
    for seed in range(20):
        store = FakeStore(Random(seed), Faults(append_raises_rate=1.0))
        client = store.client("a")
        path = f"{await claimed(client)}/00000000.log"
        writer = await create(client, path)
        with pytest.raises(AppendFailure):
            writer.append([b"abc"])
        await _settle()
        contents.add(store.files()[path])
    assert contents == {b"", b"abc"}
