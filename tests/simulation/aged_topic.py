"""A topic of its own in a history, of which less and less is there: compacted, shortened by its age or size, its head
deleted, and all of it deleted and made again under its name.

One client writes, in a few steps a second; two read, from whoever is asked, in small steps. What they may miss is said by
aged_log.py. Topics are told apart by their ids, as in topic_life.py.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID
from zlib import crc32

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import (
    create_topics_request,
    delete_records_request,
    delete_topics_request,
    fetch_request,
    init_producer_id_request,
    list_offsets_request,
    metadata_request,
    produce_request,
)
from bmq.protocol.record_batch import batches, verify_crc
from tests.simulation.aged_log import Aged, AgedLog, AgedTerms
from tests.simulation.clients import EARLIEST, LATEST, Address, Client, Unhappy, expect, now_ms
from tests.simulation.connection import Disconnected
from tests.simulation.history import Violation
from tests.simulation.outcome import Outcome

NAME = "aging"
READERS = 2
LENGTHS_BYTES = (1, 400, 200_000)
SETTLE_S = 25.0
_PADDING_BYTES_MAX = 300


@dataclass(frozen=True, slots=True)
class AgedKind:
    """What a seed's topic is like. The rates are chances per step of its writer."""

    terms: AgedTerms
    deleting_rate: float
    recreating_rate: float
    key_count: int
    pace_s: float

    @classmethod
    def of(cls, dice: random.Random, rates: Mapping[str, float], *, has_sizes: bool = True) -> AgedKind | None:
        """None: nothing of it happens in this seed. `has_sizes`: some have a size, others an age alone."""
        is_compacted = dice.random() < rates["compacted_logs"]
        is_retired = dice.random() < rates["short_retention"]
        deleting, recreating = rates["deleted_records"], rates["recreated_topics"]
        by_age = is_retired and (
            is_compacted or not has_sizes or dice.random() < 0.6
        )  # bytes that are cleaned away count for nothing
        terms = AgedTerms(
            is_compacted,
            delete_retention_s=dice.choice((0.0, 1.0, 60.0)),
            retention_s=dice.choice((0.7, 2.0, 4.0)) if by_age else None,
            retention_bytes=dice.choice((500, 2_000)) if is_retired and not by_age else None,
        )
        kind = cls(terms, deleting, recreating, dice.choice((1, 3, 8)), dice.choice((0.1, 0.3)))
        return kind if is_compacted or is_retired or deleting or recreating else None

    def configs(self) -> dict[str, str]:
        """Segments end soon, by their age or because nothing comes: only closed ones are compacted or dropped."""
        terms = self.terms
        is_retired = terms.retention_s is not None or terms.retention_bytes is not None
        is_cut = (
            is_retired or self.deleting_rate > 0 or not terms.is_compacted
        )  # of what is compacted alone nobody may delete
        policies = ["compact"] * terms.is_compacted + ["delete"] * is_cut
        return {
            "cleanup.policy": ",".join(policies),
            "delete.retention.ms": str(int(terms.delete_retention_s * 1000)),
            "retention.ms": "-1" if terms.retention_s is None else str(int(terms.retention_s * 1000)),
            "retention.bytes": str(-1 if terms.retention_bytes is None else terms.retention_bytes),
            "min.cleanable.dirty.ratio": "0",
            "file.delete.delay.ms": "100",
            "segment.ms": "300",
            "bmq.segment.idle.close.ms": "100",
        }


def broker_settings() -> dict[str, Any]:
    """So that all of it happens within seconds."""
    return {
        "retention_check_interval_ms": 300,
        "compaction_check_interval_ms": 200,
        "compaction_map_bytes": 1 << 16,
    }


def content_of(name: bytes) -> bytes:
    return name + b"." * (crc32(name) % _PADDING_BYTES_MAX)


def batch_of(records: Sequence[Aged], producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """As `records_in` reads it, with the time it is."""
    time_ms = now_ms()
    return bytes(
        encode_batch(
            [
                Record(one.key, None if one.is_tombstone else content_of(one.name), (("name", one.name),), time_ms)
                for one in records
            ],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
    )


class AgedTopic:
    """`make(name, class, …)`: a client; `places`: where somebody may be asked, replaced servers too.

    `failure` gets the first violation of a reader.
    """

    def __init__(
        self,
        kind: AgedKind,
        make: Callable[..., Any],
        places: Callable[[], Sequence[tuple[str, int]]],
        dice: random.Random,
        outcome: Outcome,
    ) -> None:
        self.kind = kind
        self.log = AgedLog(kind.terms, 0, is_over=True)
        self.topic_id = UUID(int=0)
        self.past_ids: set[UUID] = set()
        self._client: Client = make("ager", Client)
        self._readers = [Reader(f"age{number}", places, dice, self, outcome) for number in range(READERS)]
        self._dice = dice
        self._outcome = outcome
        self._wanted_by_the_late = 0  # offsets of requests that were given up: they may come in a later life
        self._producer_id = -1
        self._producer_epoch = -1
        self._sequence = 0
        self._count = 0

    def works(self) -> list[Coroutine[Any, Any, None]]:
        return [self._live(), *(reader.run() for reader in self._readers)]

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    # --- what its writer does

    async def _live(self) -> None:
        kind, dice = self.kind, self._dice
        await self._begin()
        while True:
            await asyncio.sleep(dice.expovariate(1 / kind.pace_s))
            if dice.random() < kind.recreating_rate:
                await self._end()
                await self._begin()
            elif dice.random() < kind.deleting_rate:
                await self._delete_records()
            else:
                await self._write()

    async def _begin(self) -> None:
        await self._client.until_done(self._init)
        await self._client.until_done(self._create)
        self._outcome.topics_made += self.log.life > 0
        self._sequence = 0
        self.log = AgedLog(self.kind.terms, self.log.life + 1, wanted=self._wanted_by_the_late)

    async def _end(self) -> None:
        """Deleted by its id, which spares what has its name by then."""
        self.log.is_over = True
        self.past_ids.add(self.topic_id)
        await self._client.until_done(lambda: self._delete(self.topic_id))

    async def _init(self) -> None:
        request = init_producer_id_request.InitProducerIdRequest(transaction_timeout_ms=1)
        answer = await self._client.request(ApiKey.INIT_PRODUCER_ID, 4, request)
        expect(answer.error_code)
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch

    async def _create(self) -> None:
        configs = [
            create_topics_request.CreatableTopicConfig(name=key, value=value)
            for key, value in self.kind.configs().items()
        ]
        topic = create_topics_request.CreatableTopic(
            name=NAME, num_partitions=1, replication_factor=-1, configs=configs
        )
        request = create_topics_request.CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
        answer = await self._client.request(ApiKey.CREATE_TOPICS, 7, request)
        code = answer.topics[0].error_code
        if code == ErrorCode.INVALID_REPLICATION_FACTOR:
            raise Unhappy("no broker lives just now")
        expect(code, ErrorCode.TOPIC_ALREADY_EXISTS)
        # An answer was lost, or somebody has not heard yet that the last one was deleted.
        topic_id = answer.topics[0].topic_id if code == ErrorCode.NONE else await self._listed_id()
        if topic_id in self.past_ids:
            if code == ErrorCode.NONE:
                raise Violation(f"{NAME} was made anew with the id of one that was deleted, {topic_id}")
            await self._delete(topic_id)
            raise Unhappy("it is the last one still")
        self.topic_id = topic_id

    async def _listed_id(self) -> UUID:
        wanted = metadata_request.MetadataRequestTopic(name=NAME)
        request = metadata_request.MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
        (topic,) = (await self._client.request(ApiKey.METADATA, 12, request)).topics
        expect(topic.error_code)
        return UUID(int=topic.topic_id.int)

    async def _delete(self, topic_id: UUID) -> None:
        state = delete_topics_request.DeleteTopicState(topic_id=topic_id)
        request = delete_topics_request.DeleteTopicsRequest(topics=[state], timeout_ms=5_000)
        answer = await self._client.request(ApiKey.DELETE_TOPICS, 6, request)
        expect(answer.responses[0].error_code, ErrorCode.UNKNOWN_TOPIC_ID)

    async def _write(self) -> None:
        """One batch, sent until it is acknowledged."""
        log, dice, records = self.log, self._dice, []
        for _ in range(dice.randint(1, 3)):
            self._count += 1
            key, is_tombstone = b"k%d" % dice.randrange(self.kind.key_count), dice.random() < 0.2
            records.append(Aged(key, b"life %d record %d" % (log.life, self._count), self.now_s(), is_tombstone))
        data = batch_of(records, self._producer_id, self._producer_epoch, self._sequence)
        self._sequence += len(records)
        log.send(records, len(data))
        partition = produce_request.PartitionProduceData(index=0, records=data)
        topic = produce_request.TopicProduceData(topic_id=self.topic_id, partition_data=[partition])
        request = produce_request.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])

        async def attempt() -> None:
            answer = await self._client.request(ApiKey.PRODUCE, 13, request)
            result = answer.responses[0].partition_responses[0]
            expect(result.error_code)
            log.acknowledge(result.base_offset)

        await self._client.until_done(attempt)
        self._outcome.aged_batches += 1

    async def _delete_records(self) -> None:
        """By its name, the only way there is. One try: later it may be another topic's."""
        log = self.log
        before_offset = self._dice.randint(0, log.acknowledged_end)
        log.wanted = max(log.wanted, before_offset)
        wanted = delete_records_request.DeleteRecordsPartition(partition_index=0, offset=before_offset)
        topic = delete_records_request.DeleteRecordsTopic(name=NAME, partitions=[wanted])
        request = delete_records_request.DeleteRecordsRequest(topics=[topic], timeout_ms=5_000)
        try:
            answer = await self._client.request(ApiKey.DELETE_RECORDS, 2, request)
            result = answer.topics[0].partitions[0]
            # It may be retention's, or somebody's who takes the name for the last topic.
            expect(result.error_code, ErrorCode.OFFSET_OUT_OF_RANGE)
        except (Disconnected, Unhappy):
            self._client.disconnect()
            self._wanted_by_the_late = max(self._wanted_by_the_late, before_offset)
            return
        if result.error_code == ErrorCode.NONE and log.life == 1:
            log.begins_at(result.low_watermark, self.now_s(), before_offset)
        self._outcome.deletions += 1

    # --- the end

    async def check_settled(self) -> None:
        """Everything that should be there is, when all is calm; what is too old goes, also if nobody writes."""
        client, log = self._client, self.log
        reader = self._readers[0]
        if log.is_over:  # it was being made
            await self._begin()
            return
        await client.until_done(lambda: reader.read_to_the_end(client, log, self.topic_id))
        if self.kind.terms.retention_s is not None:
            deadline_s = self.now_s() + self.kind.terms.retention_s + SETTLE_S
            await client.until_done(lambda: self._require_retired(deadline_s))

    async def _require_retired(self, deadline_s: float) -> None:
        start, end = await listed(self._client, EARLIEST), await listed(self._client, LATEST)
        self.log.begins_at(start, self.now_s())
        if start < end:
            if self.now_s() > deadline_s:
                raise Violation(f"{NAME} begins at {start} and ends at {end}, though all of it is past its retention")
            await asyncio.sleep(0.5)
            raise Unhappy("it is not gone yet")


class Reader:
    """Reads the topic from its start to its end, again and again, so that files are replaced and deleted in the middle."""

    def __init__(
        self,
        name: str,
        places: Callable[[], Sequence[tuple[str, int]]],
        dice: random.Random,
        topic: AgedTopic,
        outcome: Outcome,
    ) -> None:
        self._client = Client(name, self._address(places, dice), dice)
        self._dice = dice
        self._topic = topic
        self._outcome = outcome
        self._position = 0
        self._life = 0

    def _address(self, places: Callable[[], Sequence[tuple[str, int]]], dice: random.Random) -> Address:
        """The same one for a while: then connections stay."""
        chosen: list[tuple[str, int]] = []

        def address() -> tuple[str, int] | None:
            known = places()
            if not chosen or chosen[0] not in known or dice.random() < 0.1:
                chosen[:] = [dice.choice(known)] if known else []
            return chosen[0] if chosen else None

        return address

    async def run(self) -> None:
        topic = self._topic
        while True:
            await asyncio.sleep(self._dice.expovariate(1 / topic.kind.pace_s))
            log, topic_id = topic.log, topic.topic_id
            if log.is_over:
                continue
            if log.life != self._life or self._dice.random() < 0.05:
                self._life, self._position = log.life, 0
            try:
                if self._dice.random() < 0.2 and topic.kind.recreating_rate == 0:
                    await self._ask_start(log)
                else:
                    length_bytes = self._dice.choice(LENGTHS_BYTES)
                    self._position = await self._read(self._client, log, topic_id, self._position, length_bytes)
                self._outcome.aged_answers += 1
            except Unhappy:
                self._client.disconnect()
            except Disconnected:
                self._client.disconnect()

    async def _ask_start(self, log: AgedLog) -> None:
        """By the name: there is one topic of it alone."""
        known = log.start
        start = await listed(self._client, EARLIEST)
        self._outcome.starts_raised += start > max(log.start, log.wanted)
        log.begins_at(start, self._topic.now_s(), known)

    async def _read(self, client: Client, log: AgedLog, topic_id: UUID, position: int, length_bytes: int) -> int:
        """Where to go on. Raises Disconnected, Unhappy."""
        data = await self._fetch(client, topic_id, position, length_bytes)
        now_s = self._topic.now_s()
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if log.is_over:
                raise Unhappy("it is being deleted")
            if position >= log.sent_end:
                raise Violation(f"{client.place} calls {position} of {NAME} out of range, which may be its end")
            log.begins_beyond(position, now_s)
            # Where to go on, as clients do; it may be said of the last topic of the name.
            return min(max(position, await listed(client, EARLIEST)), log.acknowledged_end)
        expect(data.error_code)
        found, end = records_in(data.records or b"", position)
        if end > max(data.high_watermark, position):
            raise Violation(f"{client.place} served {NAME} up to {end}, and said that it ends at {data.high_watermark}")
        gone = len(log.gone)
        log.read(position, found, end, now_s)
        self._outcome.records_gone += len(log.gone) - gone
        if data.log_start_offset > 0 and not log.is_over:
            self._outcome.starts_raised += data.log_start_offset > max(log.start, log.wanted)
            log.begins_at(data.log_start_offset, now_s)
        return end

    async def _fetch(self, client: Client, topic_id: UUID, position: int, length_bytes: int) -> Any:
        wanted = fetch_request.FetchPartition(
            partition=0, fetch_offset=position, partition_max_bytes=length_bytes, log_start_offset=-1
        )
        topic = fetch_request.FetchTopic(topic_id=topic_id, partitions=[wanted])
        request = fetch_request.FetchRequest(max_wait_ms=50, min_bytes=1, topics=[topic])
        answer = await client.request(ApiKey.FETCH, 13, request)
        expect(answer.error_code)
        return answer.responses[0].partitions[0]

    async def read_to_the_end(self, client: Client, log: AgedLog, topic_id: UUID) -> None:
        position = 0
        while position < log.acknowledged_end:
            before = position
            position = await self._read(client, log, topic_id, position, max(LENGTHS_BYTES))
            if position == before:
                raise Unhappy("not all of it yet")


async def listed(client: Client, timestamp: int) -> int:
    """The topic's EARLIEST or LATEST offset, by its name. Raises Disconnected, Unhappy."""
    wanted = list_offsets_request.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = list_offsets_request.ListOffsetsTopic(name=NAME, partitions=[wanted])
    request = list_offsets_request.ListOffsetsRequest(replica_id=-1, topics=[topic])
    answer = await client.request(ApiKey.LIST_OFFSETS, 5, request)
    expect(answer.topics[0].partitions[0].error_code)
    return int(answer.topics[0].partitions[0].offset)


def records_in(data: Any, position: int) -> tuple[list[tuple[int, bytes]], int]:
    """(offset and name of each record from `position` on, where the last batch ends). `data`: whole batches."""
    found: list[tuple[int, bytes]] = []
    end = position
    for place, header in batches(data):
        verify_crc(data, place, header)
        if header.end_offset <= end or (end > position and header.base_offset < end):
            raise Violation(f"after {end} of {NAME} came a batch of [{header.base_offset}, {header.end_offset})")
        end = header.end_offset
        records = decode_records(data, place)
        found += [(record.offset, _name_of(record)) for record in records if record.offset >= position]
    return found, end


def _name_of(record: Record) -> bytes:
    if [key for key, _ in record.headers] != ["name"]:
        raise Violation(f"a record at {record.offset} of {NAME} has the headers {record.headers}")
    name = record.headers[0][1] or b""
    if record.value not in (None, content_of(name)):
        raise Violation(f"{name!r} at {record.offset} of {NAME} has the value {record.value!r}")
    return name
