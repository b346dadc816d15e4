"""Finding the check id of an open transaction between the last stable offset and the high watermark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from bmq.log.partition_log import TopicPartition
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.control_batch import ControlType, EndTransactionMarker, encode_end_transaction_marker
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import TRANSACTIONAL, BatchHeader
from bmq.proxy import transaction_check_ids
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.transaction_check_ids import CHECK_ID_BYTES_MAX, HEADER, READS_MAX, CheckIds

pytestmark = pytest.mark.unit

PRODUCER = SimpleNamespace(producer_id=7, producer_epoch=3)
BATCHES_PER_READ = 2


class Log:
    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.high_watermark = 0
        self.last_stable_offset = 0
        self.log_start_offset = 0
        self.is_proven = False
        self.reads = 0

    async def prove_ownership(self) -> None:
        self.is_proven = True

    def add(
        self, *ids: bytes | None, producer_id: int = 7, epoch: int = 3, codec: Compression = Compression.NONE,
        attributes: int = TRANSACTIONAL,
    ) -> None:  # fmt: skip
        records = [Record(None, b"v", ((HEADER, value),) if value != b"-" else ()) for value in ids]
        batch = encode_batch(
            records,
            base_offset=self.high_watermark,
            compression=codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            attributes=attributes,
        )
        self._add(bytes(batch), len(ids))

    def mark(self, producer_id: int = 7, epoch: int = 3) -> None:
        marker = EndTransactionMarker(ControlType.COMMIT, 0)
        batch = encode_end_transaction_marker(
            marker, producer_id=producer_id, producer_epoch=epoch, timestamp_ms=1, base_offset=self.high_watermark
        )
        self._add(bytes(batch), 1)

    def _add(self, batch: bytes, count: int) -> None:
        self.data.append(batch)
        self.high_watermark += count


async def at_once(work: Any) -> Any:
    return work()


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.logs = {0: Log(), 1: Log()}
        topic = SimpleNamespace(topic_id=UUID(int=1))

        async def read_views(shared: object, log: Log, offset: int, limit: int, bound: int) -> list[memoryview]:
            assert log.is_proven and bound == log.high_watermark
            log.reads += 1
            found = [one for one in log.data if offset < BatchHeader.parse(one).end_offset][:BATCHES_PER_READ]
            return [memoryview(b"".join(found))] if found else []

        monkeypatch.setattr(transaction_check_ids, "read_views", read_views)
        image = SimpleNamespace(topics={"ids": topic})
        self.ids = CheckIds(lambda: cast(Any, image), cast(Any, self), lambda: cast(Any, None), BatchOpener(at_once))

    async def leader_of(self, place: TopicPartition) -> Log:
        return self.logs[place.partition]

    async def find(self, *numbers: int) -> str | None:
        return await self.ids.find("ids", PRODUCER, numbers or (0,))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_the_last_record_of_the_producer_names_the_transaction(world: World) -> None:
    log = world.logs[0]
    log.add(b"stranger", producer_id=8)
    log.add(b"first", b"-", b"second", codec=Compression.LZ4)
    log.add(b"plain", attributes=0)
    log.add(b"older", epoch=2)
    log.add(b"-", b"-")
    assert await world.find() == "second"


async def test_ids_of_earlier_transactions_of_the_same_epoch_do_not_count(world: World) -> None:
    log = world.logs[0]
    log.add(b"open", producer_id=9)  # keeps the last stable offset where it is
    log.add(b"before")
    log.mark()
    assert await world.find() is None
    log.mark(producer_id=9)
    log.add(b"now")
    log.mark(producer_id=8)
    assert await world.find() == "now"


async def test_what_is_below_the_last_stable_offset_is_not_looked_at(world: World) -> None:
    log = world.logs[0]
    log.add(b"before")
    log.last_stable_offset = 1
    assert await world.find() is None


@pytest.mark.parametrize("value", [b"", None, b"\xff", b"a\nb", b"x" * (CHECK_ID_BYTES_MAX + 1)])
async def test_what_is_no_check_id(world: World, value: bytes | None) -> None:
    world.logs[0].add(value)
    assert await world.find() is None


async def test_one_id_in_all_partitions(world: World) -> None:
    world.logs[0].add(b"a")
    assert await world.find(0, 1) == "a"
    world.logs[1].add(b"a")
    assert await world.find(0, 1) == "a"
    world.logs[1].add(b"b")
    assert await world.find(0, 1) is None, "which one is meant is not known"


async def test_no_more_is_read_than_the_bound(world: World) -> None:
    log = world.logs[0]
    log.add(b"mine")
    for _ in range(BATCHES_PER_READ * READS_MAX - 1):
        log.add(b"other", producer_id=9)
    assert await world.find() == "mine", "the last read comes to the end"
    assert log.reads == READS_MAX
    log.add(b"other", producer_id=9)
    with pytest.raises(KafkaError, match=f"more than {READS_MAX} MiB"):  # a marker may lie behind what was read
        await world.find()
    assert log.reads == 2 * READS_MAX


async def test_an_id_behind_the_bound_is_not_said_to_be_absent(world: World) -> None:
    """A new instance would be let in at once, and abort what nobody was asked about."""
    log = world.logs[0]
    for _ in range(BATCHES_PER_READ * READS_MAX):
        log.add(b"other", producer_id=9)
    log.add(b"mine")
    with pytest.raises(KafkaError, match="not read to their end"):
        await world.find()
    log.last_stable_offset = 1
    assert await world.find() == "mine", "once transactions in front of it have ended"


async def test_a_topic_that_is_gone(world: World) -> None:
    with pytest.raises(KafkaError, match="there is no topic gone"):
        await world.ids.find("gone", PRODUCER, (0,))


@pytest.mark.parametrize("ids", [[b"-"] * 10_001 + [b"late"], [b"x" * 200] * 30_000 + [b"late"]])
async def test_a_batch_that_is_long_to_open_names_nothing(monkeypatch: pytest.MonkeyPatch, ids: list[bytes]) -> None:
    """Else a client could have the coordinator's node open tens of megabytes for each check."""
    world = World(monkeypatch)
    world.logs[0].add(*ids, codec=Compression.ZSTD)
    assert await world.find(0) is None
    world.logs[0].add(b"short")
    assert await world.find(0) == "short"
