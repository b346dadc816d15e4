"""Records of a topic: read without a group, and written."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.fetched_records import RecordFilter
from bmq.admin.orders import partition_of, topic_of
from bmq.admin.record_browser import Browse, Found, RecordBrowser
from bmq.admin.record_writer import RecordWriter
from bmq.admin.rest.parameters import NUMBER, PartitionNumber, TopicName
from bmq.admin.rest.partition_offsets import COMMITTED, EARLIEST, LATEST, offsets_of
from bmq.admin.rest.problems import ProblemError, errors
from bmq.admin.rest.record_views import BytesForm, RecordView, record_view
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.user_requests import UserRequests, refusal, user_requests
from bmq.metadata.image import TopicImage
from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.records.keys_twin import murmur2

RECORDS_MAX: Final = 1_000
PARTITIONS_MAX: Final = 200
"""Partitions that are read at the same time."""
VALUE_BYTES_MAX: Final = 1024 * 1024
WAIT_MS_MAX: Final = 10_000
READERS_MAX: Final = 64
"""Requests that read at the same time, most of which wait for new records; more are refused."""
WRITERS_MAX: Final = 64
"""Requests that write at the same time; more are refused."""
WRITTEN_MAX: Final = 100
"""Records of one request."""
_INT64_MAX: Final = 2**63 - 1
_INT32_MAX: Final = 2**31 - 1
_POSITIONS: Final = r"\d{1,10}:\d{1,19}(,\d{1,10}:\d{1,19})*"
_NEEDLE_MAX: Final = 1_000
OffsetNumber = Annotated[int, Path(ge=0, le=_INT64_MAX, description="Offset of a record")]


class From(StrEnum):
    NEWEST = "newest"
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"


class RecordsQuery(BaseModel):
    """Where to begin, what is wanted, and how much of it."""

    start: From = Field(From.NEWEST, alias="from", description="Where to begin, unless `at` says it")
    offset: int = Field(0, ge=0, le=_INT64_MAX, description="With from=offset")
    time_ms: int = Field(0, ge=0, le=2**53, description="With from=time: milliseconds since 1970")
    partition: int | None = Field(None, ge=0, le=_INT32_MAX, description="Only this partition")
    at: str | None = Field(None, max_length=8_000, pattern=f"^{_POSITIONS}$", description="`next` of a page before")
    key: str | None = Field(None, min_length=1, max_length=_NEEDLE_MAX, description="Only keys that have this part")
    value: str | None = Field(None, min_length=1, max_length=_NEEDLE_MAX, description="Only values that have this part")
    header: str | None = Field(None, min_length=1, max_length=_NEEDLE_MAX, description="NAME or NAME=PART")
    limit: int = Field(100, ge=1, le=RECORDS_MAX)
    value_bytes_max: int = Field(64 * 1024, ge=0, le=VALUE_BYTES_MAX, description="Longer values are cut")
    uncommitted: bool = Field(False, description="Also records of open and aborted transactions")
    wait_ms: int = Field(0, ge=0, le=WAIT_MS_MAX, description="How long to wait for new records")

    @property
    def isolation_level(self) -> int:
        return 0 if self.uncommitted else COMMITTED

    def wanted(self) -> RecordFilter:
        """The filter of `key`, `value` and `header`."""
        name, equals, part = (self.header or "").partition("=")
        return RecordFilter(
            None if self.key is None else self.key.encode(),
            None if self.value is None else self.value.encode(),
            None if self.header is None else name,
            part.encode() if equals else None,
        )


class RecordPage(BaseModel):
    """`next`: what to ask for next as `at`. `is_end`: there was nothing more. `scanned`: records that were looked at.

    `problems`: why a partition could not be read, by its number. One whose offsets are not known is not in `next`, either.
    """

    topic: str
    records: list[RecordView]
    next: str
    is_end: bool
    scanned: int
    problems: dict[int, str]


class HeaderForm(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=1_000)]
    value: BytesForm | None = None


class RecordForm(BaseModel):
    """`partition` null: by the key, as Kafka's clients choose it, or in turns. `timestamp_ms` null: now."""

    model_config = ConfigDict(extra="forbid")

    key: BytesForm | None = None
    value: BytesForm | None = None
    headers: Annotated[list[HeaderForm], Field(max_length=100)] = []
    partition: Annotated[int | None, Field(ge=0, le=_INT32_MAX), NUMBER] = None
    timestamp_ms: Annotated[int | None, Field(ge=0, le=2**53), NUMBER] = None

    def record(self, place: str, now_ms: int) -> Record:
        """Raises ProblemError."""
        headers = tuple(
            (one.name, None if one.value is None else one.value.content(f"{place}.headers")) for one in self.headers
        )
        return Record(
            None if self.key is None else self.key.content(f"{place}.key"),
            None if self.value is None else self.value.content(f"{place}.value"),
            headers,
            now_ms if self.timestamp_ms is None else self.timestamp_ms,
        )


class RecordsForm(BaseModel):
    model_config = ConfigDict(extra="forbid")

    records: Annotated[list[RecordForm], Field(min_length=1, max_length=WRITTEN_MAX)]


class WrittenView(BaseModel):
    """Where a record is."""

    partition: int
    offset: int


class WrittenPage(BaseModel):
    """In the order of the request."""

    written: list[WrittenView]


def record_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()
    browser = RecordBrowser()
    readers = asyncio.Semaphore(READERS_MAX)
    writers = asyncio.Semaphore(WRITERS_MAX)
    turns = _Turns()
    writer = RecordWriter()

    @pages.get("/v1/topics/{name}/records", responses=errors(404, 409, 422, 429, 503, 504))
    async def read(request: Request, name: TopicName, query: Annotated[RecordsQuery, Query()]) -> RecordPage:
        """Records from a place on, as far as 16 MiB of the log, 4 MiB of records and 3 s go. `key`, `value`, `header`: only
        records that have these parts. With `wait_ms` it is a long poll at the end of the topic. No group is joined.
        """
        topic = topic_of(sources.image(), name)
        requests = user_requests(sources, request)
        if readers.locked():
            raise ProblemError(429, f"{READERS_MAX} requests read records here already; ask again in a moment")
        async with readers:
            begun = await _begin(requests, topic, query)
            browse = Browse(
                name, begun.positions, query.wanted(), query.limit, query.isolation_level, query.wait_ms / 1000
            )
            found = await browser.browse(requests.ask, browse)
            return _page(name, found, begun.unknown, query.value_bytes_max)

    @pages.get(
        "/v1/topics/{name}/partitions/{number}/records/{offset}/value",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}}, **errors(404, 409, 422, 429, 503, 504)},
    )
    async def value_of(request: Request, name: TopicName, number: PartitionNumber, offset: OffsetNumber) -> Response:
        """The whole value of one record, as a file. It is empty for a record without a value."""
        partition_of(topic_of(sources.image(), name), number)
        requests = user_requests(sources, request)
        if readers.locked():
            raise ProblemError(429, f"{READERS_MAX} requests read records here already; ask again in a moment")
        async with readers:
            browse = Browse(name, {number: offset}, RecordFilter(), 1, 0, 0)
            found = await browser.browse(requests.ask, browse)
        if not found.records or found.records[0].record.offset != offset:
            raise ProblemError(404, f"there is no record at offset {offset} of partition {number}")
        headers = {
            "content-disposition": f'attachment; filename="{name}-{number}-{offset}"',
            "x-content-type-options": "nosniff",
            "content-security-policy": "sandbox; default-src 'none'",
        }
        return Response(found.records[0].record.value or b"", media_type="application/octet-stream", headers=headers)

    @pages.post("/v1/topics/{name}/records", status_code=201, responses=errors(400, 404, 409, 413, 422, 429, 503, 504))
    async def write(request: Request, name: TopicName, form: RecordsForm) -> WrittenPage:
        """Write records, and answer when all replicas have them. A request without an answer may have written them. A
        refusal says which records were written nevertheless, by their places in the request from 0 on.
        """
        topic = topic_of(sources.image(), name)
        requests = user_requests(sources, request)
        now_ms = requests.now_ms()
        records = [one.record(f"body.records.{index}", now_ms) for index, one in enumerate(form.records)]
        chosen = [
            turns.partition(len(topic.partitions), record.key) if one.partition is None else one.partition
            for one, record in zip(form.records, records, strict=True)
        ]
        for number in chosen:
            partition_of(topic, number)
        if writers.locked():
            raise ProblemError(429, f"{WRITERS_MAX} requests write records here already; ask again in a moment")
        async with writers:
            return await _write(requests, writer, topic, records, chosen)

    return pages


class _Turns:
    """Chooses partitions."""

    def __init__(self) -> None:
        self._next = 0

    def partition(self, count: int, key: bytes | None) -> int:
        """As Kafka's default partitioner for a record with a key, else each partition in turn."""
        if key is not None:
            return (murmur2(key) & _INT32_MAX) % count
        self._next += 1
        return self._next % count


def _numbers(topic: TopicImage, partition: int | None) -> Sequence[int]:
    """The partitions to read. Raises ProblemError, UnknownSubject."""
    if partition is not None:
        return (partition_of(topic, partition).partition,)
    if len(topic.partitions) > PARTITIONS_MAX:
        raise ProblemError(422, f"the topic has {len(topic.partitions)} partitions: name one of them in `partition`")
    return [one.partition for one in topic.partitions]


def _positions(topic: TopicImage, at: str) -> dict[int, int]:
    """The offsets in PARTITION:OFFSET,... Raises ProblemError, UnknownSubject."""
    positions = {}
    for one in at.split(","):
        number, _, offset = one.partition(":")
        if int(offset) > _INT64_MAX or int(number) > _INT32_MAX:
            raise ProblemError(422, f"query.at: {one} is not PARTITION:OFFSET")
        positions[partition_of(topic, int(number)).partition] = int(offset)
    if len(positions) > PARTITIONS_MAX:
        raise ProblemError(422, f"query.at: at most {PARTITIONS_MAX} partitions are read at the same time")
    return positions


class _Begun(NamedTuple):
    """The first offset to read of each partition; and the error codes of those whose offsets are not known."""

    positions: dict[int, int]
    unknown: dict[int, int]


async def _begin(requests: UserRequests, topic: TopicImage, query: RecordsQuery) -> _Begun:
    """Where to begin. Raises ProblemError, also when no partition's offsets are known; UnknownSubject."""
    if query.at is not None:
        return _Begun(_positions(topic, query.at), {})
    unknown: dict[int, int] = {}

    async def asked(time: int) -> dict[int, int]:
        numbers = [number for number in _numbers(topic, query.partition) if number not in unknown]
        found = await offsets_of(requests, topic.name, numbers, time, query.isolation_level)
        unknown.update((number, code) for number, (_, code) in found.items() if code)
        offsets = {number: offset for number, (offset, code) in found.items() if not code}
        if found and not offsets:
            raise refusal(next(iter(found.values()))[1])
        return offsets

    ends = await asked(LATEST)
    match query.start:
        case From.LATEST:
            return _Begun(ends, unknown)
        case From.TIME:
            times = await asked(query.time_ms)
            return _Begun({one: ends[one] if offset < 0 else offset for one, offset in times.items()}, unknown)
    firsts = await asked(EARLIEST)
    ends = {number: ends[number] for number in firsts}
    match query.start:
        case From.OFFSET:
            return _Begun({one: min(max(query.offset, firsts[one]), ends[one]) for one in ends}, unknown)
        case From.NEWEST:
            return _Begun(newest_starts(firsts, ends, query.limit), unknown)
    return _Begun(firsts, unknown)


def newest_starts(firsts: Mapping[int, int], ends: Mapping[int, int], count: int) -> dict[int, int]:
    """Where the last `count` offsets begin: the same number of each partition, more where others have fewer."""
    starts, left = {}, count
    by_length = sorted(ends, key=lambda number: ends[number] - firsts.get(number, 0))
    for place, number in enumerate(by_length):
        share = -(-left // (len(by_length) - place))
        starts[number] = max(firsts.get(number, 0), ends[number] - share)
        left -= ends[number] - starts[number]
    return starts


def _page(topic: str, found: Found, unknown: Mapping[int, int], value_bytes_max: int) -> RecordPage:
    return RecordPage(
        topic=topic,
        records=[record_view(one.partition, one.record, value_bytes_max) for one in found.records],
        next=",".join(f"{number}:{offset}" for number, offset in sorted(found.positions.items())),
        is_end=found.is_end and not unknown,
        scanned=found.scanned,
        problems={number: ErrorCode(code).name for number, code in unknown.items()} | found.problems,
    )


async def _write(
    requests: UserRequests,
    writer: RecordWriter,
    topic: TopicImage,
    records: Sequence[Record],
    partitions: Sequence[int],
) -> WrittenPage:
    """Raises ProblemError, which says what was written of other partitions' records."""
    batches: dict[int, list[int]] = {}
    for index, number in enumerate(partitions):
        batches.setdefault(number, []).append(index)
    written: dict[int, WrittenView] = {}

    async def write(number: int, indexes: Sequence[int]) -> None:
        batch = [records[index] for index in indexes]
        base_offset = await writer.write(requests.ask, topic.name, topic.topic_id, number, batch)
        for place, index in enumerate(indexes):
            written[index] = WrittenView(partition=number, offset=base_offset + place)

    outcomes = await asyncio.gather(*(write(*one) for one in batches.items()), return_exceptions=True)
    failures = [one for one in outcomes if one is not None]
    if not failures:
        return WrittenPage(written=[written[index] for index in sorted(written)])
    unexpected = next((one for one in failures if not isinstance(one, ProblemError | KafkaError)), None)
    if unexpected is not None:
        raise unexpected
    raise _partly(failures[0], sorted(written))


def _partly(failure: BaseException, written: Sequence[int]) -> ProblemError:
    """The problem for a failure after which these records of the request are written."""
    problem = refusal(failure.code, str(failure)) if isinstance(failure, KafkaError) else failure
    assert isinstance(problem, ProblemError)
    if not written:
        return problem
    places = ", ".join(map(str, written))
    return ProblemError(problem.status, f"{problem.detail}; of this request the records {places} were written")
