"""Groups that keep the order of each key: members' fetches over real shards, from the read of a batch to what they are given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace

import pytest

from bmq.log.partition_log import TopicPartition
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.codec import decode, encode
from bmq.protocol.compression import Compression
from bmq.protocol.share_state_messages import (
    AcquirePartition,
    InitializePartition,
    OffsetRange,
    ShareAcquireRequest,
    ShareInitializeRequest,
)
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.share import key_reads
from bmq.proxy.share.consumers import ShareConsumers
from bmq.proxy.share.key_reads import KeyReads
from bmq.proxy.share.read_batches import batches_of
from bmq.proxy.share.requests import ShareRequests
from bmq.records.key_layout import HASH_MIN, NO_KEY
from bmq.records.keys_twin import key_hash
from tests.support.produced_batch import produced_batch
from tests.unit.coordinator.share_state.states import States
from tests.unit.proxy_fetch.cluster import TOPIC_ID
from tests.unit.proxy_share.share_client import Member, ShareCluster, acquired_of, partitions_of, turns

pytestmark = pytest.mark.unit

NEVER_MS = 60_000
KEYED = {"bmq.share.subscription.type": "key_shared"}
KEYS = [b"key-%d" % number for number in range(20)]


class KeyedCluster(ShareCluster):
    """Over the shards that servers have, in memory."""

    def __init__(self) -> None:
        super().__init__(1)
        self.configure(**KEYED)
        self.shards = States()
        self.shards.topics.group_configs["g"] = dict(KEYED)
        self.use(self.shards)

    def use(self, shards: States) -> None:
        self.shards = shards
        self.consumers = ShareConsumers(self.fetch_cluster.fetcher.shared, shards.coordinator)
        self.requests = ShareRequests(self.consumers)

    async def initialize(self) -> None:
        parts = [InitializePartition(topic_id=TOPIC_ID, partition=0, start_offset=0)]
        request = ShareInitializeRequest(group_id="g", state_epoch=1, partitions=parts)
        answer = await self.shards.coordinator.initialize(request)
        assert not answer.partitions[0].error_code

    def write(self, keys: Sequence[bytes | None], codec: Compression = Compression.NONE) -> None:
        log = self.fetch_cluster.log(0)
        batch = encode_batch([Record(key, b"value", (), 1000) for key in keys], compression=codec)
        log.append(produced_batch(log.topic_partition, memoryview(bytearray(batch)), lambda _: None))


@pytest.fixture
async def keyed() -> AsyncIterator[KeyedCluster]:
    made = KeyedCluster()
    await made.initialize()
    yield made
    await made.close()


def offsets(response: object) -> list[int]:
    return [offset for first, last, _ in acquired_of(response) for offset in range(first, last + 1)]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
async def test_one_batch_goes_to_several_members_in_disjoint_ranges(keyed: KeyedCluster, codec: Compression) -> None:
    members = [Member(keyed, one) for one in "ab"]
    waiting = [asyncio.ensure_future(one.fetch(max_wait_ms=NEVER_MS)) for one in members]
    await turns(200)
    assert len(keyed.consumers.shared.deadlines) == 2  # both wait
    keyed.write(KEYS + KEYS, codec)
    answers = await asyncio.gather(*waiting)
    first, second = (set(offsets(one)) for one in answers)
    assert first and second and not first & second and first | second == set(range(40))
    for given in (first, second):
        assert all((offset + 20) % 40 in given for offset in given)  # all of a key
    batches = [bytes(partitions_of(one)[0].records) for one in answers]
    assert batches[0] == batches[1]  # whole, for both
    assert keyed.consumers.key_reads.opened_count == 1


async def test_a_waiting_member_is_given_a_key_once_the_other_has_done_it(keyed: KeyedCluster) -> None:
    one, other = Member(keyed, "a"), Member(keyed, "b")
    keyed.write([b"k"])
    assert offsets(await one.fetch()) == [0]
    keyed.write([b"k"])
    waiting = asyncio.ensure_future(other.fetch(max_wait_ms=NEVER_MS))
    await turns(200)
    assert not waiting.done()
    assert partitions_of(await one.acknowledge({0: [(0, 0, [1])]}))[0].error_code == 0
    given = offsets(await one.fetch())
    one.lose()  # whoever has the range: the other gets what is left
    assert offsets(await waiting) == [1]
    assert given in ([], [1])


async def test_acknowledgements_of_a_fetch_free_their_keys_for_it(keyed: KeyedCluster) -> None:
    member = Member(keyed, "a")
    keyed.write([b"k", b"k", b"k"])
    given = await member.fetch(max_records=1, share_acquire_mode=1)
    assert offsets(given) == [0]
    assert offsets(await member.fetch(acks={0: [(0, 0, [1])]}, max_records=1, share_acquire_mode=1)) == [1]
    assert offsets(await member.fetch(acks={0: [(1, 1, [2])]}, max_records=9)) == [1, 2]


async def test_a_new_owner_of_the_shard_is_told_the_keys_again(keyed: KeyedCluster) -> None:
    one, other = Member(keyed, "a"), Member(keyed, "b")
    keyed.write(KEYS)
    keyed.write(KEYS)
    assert offsets(await one.fetch(max_records=10, share_acquire_mode=1)) == list(range(10))
    keyed.use(keyed.shards.take_over())
    answer = offsets(await other.fetch())
    assert answer and not set(answer) & {*range(10), *range(20, 30)}  # what a has, and what follows it


async def test_a_member_gets_on_without_one_that_does_not_fetch(
    keyed: KeyedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bmq.coordinator.share_state.keys.ABSENT_MS", 50)
    monkeypatch.setattr("bmq.proxy.share.fetch_job.LOOK_S", 0.02)
    one, other = Member(keyed, "a"), Member(keyed, "b")
    await asyncio.gather(one.fetch(), other.fetch())
    keyed.write(KEYS)
    found: set[int] = set()
    while len(found) < 20:
        found.update(offsets(await one.fetch(max_wait_ms=500)))
    assert found == set(range(20))


async def test_a_group_that_keeps_no_order_opens_nothing(keyed: KeyedCluster) -> None:
    keyed.configure()
    del keyed.shards.topics.group_configs["g"]
    keyed.write(KEYS)
    assert offsets(await Member(keyed, "a").fetch()) == list(range(20))
    assert keyed.consumers.key_reads.opened_count == 0


def log_of(number: int = 0) -> SimpleNamespace:
    return SimpleNamespace(topic_partition=TopicPartition(TOPIC_ID, number))


def told(answer: tuple[int, bytearray]) -> tuple[int, list[int]]:
    first, data = answer
    return first, [int.from_bytes(data[at : at + 2], "little") for at in range(0, len(data), 2)]


def batch(keys: Sequence[bytes | None], base_offset: int, codec: Compression = Compression.NONE) -> bytes:
    return bytes(encode_batch([Record(key, b"", (), 1) for key in keys], base_offset=base_offset, compression=codec))


async def test_hashes_of_a_read_with_holes_and_what_nobody_has_to_see() -> None:
    views = [memoryview(batch([b"a", None], 5) + batch([b"b"], 9) + batch([b"c"], 10, Compression.ZSTD))]
    found, _ = batches_of(views)
    reads = KeyReads(BatchOpener())
    unseen = [OffsetRange(first=7, last=9)]
    answer = told(await reads.hashes(log_of(), found, views, unseen, 6))
    assert answer == (6, [NO_KEY, NO_KEY, NO_KEY, NO_KEY, key_hash(b"c")])
    split = [views[0][:70], views[0][70:]]
    answer = told(await reads.hashes(log_of(1), found, split, [], 0))
    assert answer[1] == [key_hash(b"a"), NO_KEY, NO_KEY, NO_KEY, key_hash(b"b"), key_hash(b"c")]
    assert reads.opened_count == 2 + 3


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
async def test_a_batch_that_cannot_be_opened_stays_in_order(codec: Compression) -> None:
    data = bytearray(batch([b"a", b"b"], 0, codec))
    data[61:] = b"\xff" * (len(data) - 61)
    views = [memoryview(data)]
    found, _ = batches_of(views)
    answer = told(await KeyReads(BatchOpener()).hashes(log_of(), found, views, [], 0))
    assert answer == (0, [HASH_MIN, HASH_MIN])


async def test_what_is_remembered_and_told_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    views = [memoryview(batch([b"a"], 0) + batch([b"b"], 1) + batch([b"c"], 50))]
    found, _ = batches_of(views)
    reads = KeyReads(BatchOpener(), remembered_bytes_max=110)  # one of them
    monkeypatch.setattr(key_reads, "TOLD_OFFSETS_MAX", 2)
    for _ in range(2):
        assert told(await reads.hashes(log_of(), found, views, [], 0)) == (0, [key_hash(b"a"), key_hash(b"b")])
    assert reads.opened_count == 4


def test_other_groups_send_no_byte_of_hashes() -> None:
    def encoded(**fields: object) -> bytes:
        part = AcquirePartition(topic_id=TOPIC_ID, partition=0, **fields)  # type: ignore[arg-type]
        return bytes(encode("request", ApiKey.SHARE_ACQUIRE, 0, ShareAcquireRequest(partitions=[part])))

    plain, with_keys = encoded(), encoded(hash_offset=7, key_hashes=bytearray(b"\1\0"))
    assert len(with_keys) > len(plain) and plain.endswith(b"\0\0")
    (part,) = decode("request", ApiKey.SHARE_ACQUIRE, 0, with_keys).partitions
    assert (part.hash_offset, bytes(part.key_hashes)) == (7, b"\1\0")
