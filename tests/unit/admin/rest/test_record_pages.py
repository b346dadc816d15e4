"""Records are read and written at REST: places, pages, filters, bounds, and what cannot be."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from bmq.admin.rest.record_pages import READERS_MAX, WRITERS_MAX, newest_starts
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.records.keys_twin import murmur2
from tests.fakes.kafka_requests import NOW_MS, FakeKafkaRequests
from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit

RECORDS = "/v1/topics/orders/records"
ORDERS_PARTITIONS = 3


class Browsed(RestCluster):
    """Topic `orders` has ten records in partition 0 from offset 5 on, two in partition 1, none in partition 2."""

    def __init__(self) -> None:
        super().__init__()
        self.kafka = kafka = FakeKafkaRequests()
        kafka.starts["orders", 0] = 5
        kafka.put("orders", 0, *(Record(b"k%d" % n, b"v%d" % n, (("n", b"%d" % n),), 1_000 + n) for n in range(10)))
        kafka.put("orders", 1, Record(None, b"\xff\x00", (), 2_000), Record(b"gone", None, (), 2_001))

    @property
    def fake(self) -> FakeKafkaRequests:
        assert self.kafka is not None
        return self.kafka


def places(page: Any) -> list[tuple[int, int]]:
    return [(one["partition"], one["offset"]) for one in page["records"]]


async def test_the_newest_records_of_all_partitions() -> None:
    async with Browsed() as cluster:
        page = await cluster.get(RECORDS, limit=4)
        assert sorted(places(page)) == [(0, 13), (0, 14), (1, 0), (1, 1)]
        assert page["is_end"] is True and page["problems"] == {}
        assert page["next"] == "0:15,1:2,2:0"


@pytest.mark.parametrize(
    ("lengths", "count", "taken"),
    [
        ([20, 20, 20], 6, [2, 2, 2]),
        ([18, 5, 7], 50, [18, 5, 7]),
        ([100, 1, 0], 10, [9, 1, 0]),
        ([5, 5, 5], 1, [1, 0, 0]),
        ([0, 0], 10, [0, 0]),
        ([], 10, []),
    ],
)
def test_the_newest_are_shared_out(lengths: list[int], count: int, taken: list[int]) -> None:
    firsts = {number: 10 * number for number in range(len(lengths))}
    ends = {number: firsts[number] + length for number, length in enumerate(lengths)}
    starts = newest_starts(firsts, ends, count)
    assert [ends[number] - starts[number] for number in range(len(lengths))] == taken


async def test_a_record_has_text_where_it_is_text_and_else_base64() -> None:
    async with Browsed() as cluster:
        first, second = (await cluster.get(RECORDS, partition=1))["records"]
        assert first["key"] is None
        assert first["value"] == {"text": None, "base64": "/wA=", "size_bytes": 2, "is_cut": False}
        assert second["value"] is None and second["key"]["text"] == "gone"
        record = (await cluster.get(RECORDS, partition=0, limit=1))["records"][0]
        assert record["headers"] == [
            {"name": "n", "value": {"text": "9", "base64": None, "size_bytes": 1, "is_cut": False}}
        ]
        assert record["timestamp_ms"] == 1_009


@pytest.mark.parametrize(
    ("query", "offsets"),
    [
        ({"from": "earliest", "limit": 2}, [5, 6]),
        ({"from": "offset", "offset": 8, "limit": 2}, [8, 9]),
        ({"from": "offset", "offset": 0, "limit": 1}, [5]),
        ({"from": "offset", "offset": 10**12}, []),
        ({"from": "time", "time_ms": 1_007}, [12, 13, 14]),
        ({"from": "time", "time_ms": 10**12}, []),
        ({"from": "latest"}, []),
        ({"at": "0:9", "limit": 2}, [9, 10]),
        ({"from": "earliest", "key": "k3"}, [8]),
        ({"from": "earliest", "value": "v9", "limit": 1}, [14]),
        ({"from": "earliest", "header": "n=7"}, [12]),
        ({"from": "earliest", "header": "none"}, []),
    ],
)
async def test_where_reading_begins_and_what_passes(query: dict[str, Any], offsets: list[int]) -> None:
    async with Browsed() as cluster:
        page = (
            await cluster.get(RECORDS, partition=0, **query)
            if "at" not in query
            else await cluster.get(RECORDS, **query)
        )
        assert [offset for _, offset in places(page)] == offsets


async def test_pages_follow_each_other_without_gaps() -> None:
    async with Browsed() as cluster:
        oldest: dict[str, Any] = {"from": "earliest", "limit": 3}
        page = await cluster.get(RECORDS, **oldest)
        found = places(page)
        while not page["is_end"]:
            page = await cluster.get(RECORDS, at=page["next"], limit=3)
            found += places(page)
        assert sorted(found) == [*((0, n) for n in range(5, 15)), (1, 0), (1, 1)]


async def test_a_long_poll_waits_at_the_end_for_a_new_record() -> None:
    async with Browsed() as cluster:
        cluster.fake.on_wait = lambda: cluster.fake.put("orders", 2, Record(b"new", b"one"))
        page = await cluster.get(RECORDS, at="0:15,1:2,2:0", wait_ms=10_000)
        assert places(page) == [(2, 0)]
        waits = [one.max_wait_ms for one in cluster.fake.requests if hasattr(one, "max_wait_ms")]
        assert waits[0] == 0 and 9_000 < waits[-1] <= 10_000


async def test_a_long_poll_ends_when_a_fetch_does_not_wait() -> None:
    """As of a server that stops; and goes on after a record that the filter leaves out."""
    async with Browsed() as cluster:
        fetches = 0

        def count() -> None:
            nonlocal fetches
            fetches += 1
            if fetches == 1:
                cluster.fake.put("orders", 2, Record(None, b"another"))

        cluster.fake.on_wait = count
        page = await cluster.get(RECORDS, at="0:15,1:2,2:0", value="wanted", wait_ms=10_000)
        assert page["records"] == [] and page["next"] == "0:15,1:2,2:1"
        assert fetches == 2


async def test_long_values_are_cut_between_characters_and_had_whole_as_a_file() -> None:
    async with Browsed() as cluster:
        cluster.fake.put("orders", 2, Record(None, "ä".encode() * 10, (("h" * 5_000, b"x" * 5_000),) * 101))
        record = (await cluster.get(RECORDS, partition=2, value_bytes_max=5))["records"][0]
        assert record["value"] == {"text": "ää", "base64": None, "size_bytes": 20, "is_cut": True}
        assert (record["header_count"], len(record["headers"])) == (101, 100)
        assert len(record["headers"][0]["name"]) < 5_000 and record["headers"][0]["value"]["is_cut"]
        whole = await cluster.client.get("/v1/topics/orders/partitions/2/records/0/value")
        assert whole.content == "ä".encode() * 10
        assert whole.headers["content-type"] == "application/octet-stream"
        assert whole.headers["content-disposition"] == 'attachment; filename="orders-2-0"'
        assert whole.headers["x-content-type-options"] == "nosniff"
        await cluster.get("/v1/topics/orders/partitions/2/records/7/value", 404)
        await cluster.get("/v1/topics/orders/partitions/9/records/0/value", 404)


async def test_retention_that_was_faster_is_no_error() -> None:
    async with Browsed() as cluster:
        page = await cluster.get(RECORDS, at="0:1", limit=1)
        assert places(page) == [(0, 5)]
        page = await cluster.get(RECORDS, at="0:99")
        assert places(page) == [] and page["problems"] == {"0": "offset 99 is not in the partition"}


async def test_a_partition_that_cannot_be_read_is_named() -> None:
    async with Browsed() as cluster:
        cluster.fake.refused[ApiKey.FETCH] = ErrorCode.KAFKA_STORAGE_ERROR
        page = await cluster.get(RECORDS, partition=0)
        assert page["problems"] == {"0": "KAFKA_STORAGE_ERROR"} and page["records"] == []
        cluster.fake.refused[ApiKey.LIST_OFFSETS] = ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.get(RECORDS, 503)


def refuse_partition(fake: FakeKafkaRequests, wanted: ApiKey, number: int, code: ErrorCode, from_time: int = 0) -> None:
    """One partition is refused by an API. `from_time`: of ListOffsets only requests with this time or a later one."""
    original = fake.ask

    async def ask(api_key: ApiKey, request: Any, *, principal: str, host: str) -> Any:
        if api_key is ApiKey.PRODUCE and wanted is api_key:
            (part,) = request.topic_data[0].partition_data
            if part.index == number:
                fake.passing[ApiKey.PRODUCE] = [code]
        response = await original(api_key, request, principal=principal, host=host)
        if (
            api_key is ApiKey.LIST_OFFSETS
            and wanted is api_key
            and request.topics[0].partitions[0].timestamp >= from_time
        ):
            for one in response.topics[0].partitions:
                if one.partition_index == number:
                    one.error_code, one.offset = int(code), -1
        return response

    fake.ask = ask  # type: ignore[method-assign]


@pytest.mark.parametrize("query", [{}, {"from": "earliest"}, {"from": "latest"}, {"from": "time", "time_ms": 0}])
async def test_a_partition_without_known_offsets_is_named_and_is_not_the_end(query: dict[str, Any]) -> None:
    async with Browsed() as cluster:
        refuse_partition(cluster.fake, ApiKey.LIST_OFFSETS, 0, ErrorCode.KAFKA_STORAGE_ERROR, from_time=-2)
        page = await cluster.get(RECORDS, **query)
        assert page["problems"] == {"0": "KAFKA_STORAGE_ERROR"} and page["is_end"] is False
        assert page["next"] == "1:2,2:0"
        await cluster.get(RECORDS, 503, partition=0)


async def test_a_partition_whose_times_are_not_known_is_not_read_from_its_end() -> None:
    async with Browsed() as cluster:
        refuse_partition(cluster.fake, ApiKey.LIST_OFFSETS, 0, ErrorCode.KAFKA_STORAGE_ERROR, from_time=0)
        query: dict[str, Any] = {"from": "time", "time_ms": 1_007}
        page = await cluster.get(RECORDS, **query)
        assert page["problems"] == {"0": "KAFKA_STORAGE_ERROR"} and page["is_end"] is False
        assert places(page) == [(1, 0), (1, 1)]


async def test_a_partition_that_is_being_moved_is_asked_again() -> None:
    moved = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    async with Browsed() as cluster:
        cluster.fake.passing = {api_key: list(moved) for api_key in (ApiKey.LIST_OFFSETS, ApiKey.FETCH)}
        page = await cluster.get(RECORDS, limit=2, partition=0)
        assert places(page) == [(0, 13), (0, 14)] and page["problems"] == {}
        cluster.fake.passing = {ApiKey.PRODUCE: [*moved, ErrorCode.NOT_ENOUGH_REPLICAS]}
        body = {"records": [{"value": {"text": "a"}, "partition": 2}]}
        assert (await cluster.post(RECORDS, 201, body))["written"] == [{"partition": 2, "offset": 0}]
        assert [one.value for one in cluster.fake.records["orders", 2]] == [b"a"]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 1_001},
        {"from": "somewhere"},
        {"offset": -1},
        {"at": "0"},
        {"at": "0:1,"},
        {"at": "0:9999999999999999999"},
        {"wait_ms": 10_001},
        {"value_bytes_max": 2**21},
        {"key": ""},
        {"partition": -1},
    ],
)
async def test_what_cannot_be_asked(query: dict[str, Any]) -> None:
    async with Browsed() as cluster:
        await cluster.get(RECORDS, 422, **query)


async def test_what_does_not_exist() -> None:
    async with Browsed() as cluster:
        await cluster.get("/v1/topics/none/records", 404)
        await cluster.get(RECORDS, 404, partition=9)
        await cluster.get(RECORDS, 404, at="9:0")
        cluster.kafka = None
        await cluster.get(RECORDS, 503)


async def test_too_many_readers_are_refused_and_the_others_go_on() -> None:
    async with Browsed() as cluster:
        go_on = asyncio.Event()
        waiting, all_wait = 0, asyncio.Event()
        original = cluster.fake.ask

        async def ask(api_key: ApiKey, request: Any, *, principal: str, host: str) -> Any:
            nonlocal waiting
            if api_key is ApiKey.FETCH:
                waiting += 1
                if waiting == READERS_MAX:
                    all_wait.set()
                await go_on.wait()
            return await original(api_key, request, principal=principal, host=host)

        cluster.fake.ask = ask  # type: ignore[method-assign]
        readers = [asyncio.ensure_future(cluster.get(RECORDS, at="0:5", limit=1)) for _ in range(READERS_MAX)]
        await all_wait.wait()
        await cluster.get(RECORDS, 429, at="0:5")
        go_on.set()
        assert {tuple(places(page)) for page in await asyncio.gather(*readers)} == {((0, 5),)}
        await cluster.get(RECORDS, at="0:5")


async def test_too_many_writers_are_refused_and_the_others_go_on() -> None:
    async with Browsed() as cluster:
        go_on = asyncio.Event()
        original = cluster.fake.ask
        waiting, all_wait = 0, asyncio.Event()

        async def ask(api_key: ApiKey, request: Any, *, principal: str, host: str) -> Any:
            nonlocal waiting
            if not go_on.is_set():
                waiting += 1
                if waiting == ORDERS_PARTITIONS:  # one of each partition; the others wait behind it
                    all_wait.set()
                await go_on.wait()
            return await original(api_key, request, principal=principal, host=host)

        cluster.fake.ask = ask  # type: ignore[method-assign]
        body = {"records": [{"partition": number} for number in range(ORDERS_PARTITIONS)]}
        writers = [asyncio.ensure_future(cluster.post(RECORDS, 201, body)) for _ in range(WRITERS_MAX)]
        await all_wait.wait()
        refused = await cluster.post(RECORDS, 429, body)
        assert refused["detail"].startswith(f"{WRITERS_MAX} requests write records here already")
        go_on.set()
        assert len(await asyncio.gather(*writers)) == WRITERS_MAX
        await cluster.post(RECORDS, 201, body)


async def test_a_refusal_tells_which_records_were_written() -> None:
    async with Browsed() as cluster:
        refuse_partition(cluster.fake, ApiKey.PRODUCE, 0, ErrorCode.MESSAGE_TOO_LARGE)
        body = {"records": [{"partition": number} for number in (1, 0, 2, 1, 0)]}
        detail = (await cluster.post(RECORDS, 422, body))["detail"]
        assert detail == "partition 0: no; of this request the records 0, 2, 3 were written"
        assert len(cluster.fake.records["orders", 1]) == 4 and len(cluster.fake.records["orders", 2]) == 1
        assert len(cluster.fake.records["orders", 0]) == 10


async def test_records_are_written_where_their_keys_belong() -> None:
    async with Browsed() as cluster:
        body = {
            "records": [
                {"key": {"text": "a"}, "value": {"text": "ä"}, "headers": [{"name": "h", "value": {"base64": "/w=="}}]},
                {"key": {"base64": base64.b64encode(b"a").decode()}, "value": None},
                {"value": {"text": "x"}, "partition": 2, "timestamp_ms": 7},
            ]
        }
        written = (await cluster.post(RECORDS, 201, body))["written"]
        number = (murmur2(b"a") & 0x7FFFFFFF) % ORDERS_PARTITIONS
        assert [one["partition"] for one in written] == [number, number, 2]
        assert written[1]["offset"] == written[0]["offset"] + 1
        keyed = [one for one in cluster.fake.records["orders", number] if one.key == b"a"]
        first, tombstone = keyed
        assert (first.value, first.headers) == ("ä".encode(), (("h", b"\xff"),))
        assert first.timestamp_ms == NOW_MS and tombstone.value is None
        assert cluster.fake.records["orders", 2][-1].timestamp_ms == 7


async def test_records_without_keys_go_to_each_partition_in_turn() -> None:
    async with Browsed() as cluster:
        body = {"records": [{"value": {"text": str(n)}} for n in range(2 * ORDERS_PARTITIONS)]}
        written = (await cluster.post(RECORDS, 201, body))["written"]
        numbers = [one["partition"] for one in written]
        assert sorted(numbers) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("record", "part"),
    [
        ({"value": {}}, "give `text` or `base64`, and not both"),
        ({"value": {"text": "a", "base64": "YQ=="}}, "give `text` or `base64`, and not both"),
        ({"value": {"base64": "YQ"}}, "base64"),
        ({"value": {"base64": "%"}}, "base64"),
        ({"key": {"text": "\ud800"}}, "unicode"),
        ({"headers": [{"name": "\ud800"}]}, "unicode"),
        ({"headers": [{"name": ""}]}, "name"),
        ({"partition": "1"}, "a number is wanted"),
        ({"something": 1}, "something"),
    ],
)
async def test_what_is_no_record(record: dict[str, Any], part: str) -> None:
    async with Browsed() as cluster:
        # Written by hand: half of a surrogate pair is valid JSON.
        body = json.dumps({"records": [record]})
        answer = await cluster.client.post(RECORDS, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422 and part in answer.json()["detail"], answer.text
        assert ApiKey.PRODUCE not in [api_key for api_key, *_ in cluster.fake.asked]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 403),
        (ErrorCode.POLICY_VIOLATION, 409),
        (ErrorCode.MESSAGE_TOO_LARGE, 422),
        (ErrorCode.CORRUPT_MESSAGE, 503),
        (ErrorCode.REQUEST_TIMED_OUT, 504),
    ],
)
async def test_a_refused_record_is_told_by_status_and_sentence(code: ErrorCode, status: int) -> None:
    async with Browsed() as cluster:
        cluster.fake.refused[ApiKey.PRODUCE] = code
        answer = await cluster.post(RECORDS, status, {"records": [{"value": {"text": "a"}, "partition": 1}]})
        assert answer["detail"] == "partition 1: no"
        await cluster.post(RECORDS, 404, {"records": [{"partition": 9}]})
        cluster.fake.failed[ApiKey.PRODUCE] = KafkaError(code, "the sentence")
        assert (await cluster.post(RECORDS, status, {"records": [{"partition": 1}]}))["detail"] == "the sentence"


async def test_the_client_of_the_request_is_the_client_of_kafka() -> None:
    async with Browsed() as cluster:
        await cluster.get(RECORDS)
        assert {(principal, host) for _, principal, host in cluster.fake.asked} == {("User:ANONYMOUS", "127.0.0.1")}
