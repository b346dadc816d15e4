"""What no client should send: Kafka's error code or a closed connection, and other clients notice nothing."""

from __future__ import annotations

import json
import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.protocol import codec
from bmq.protocol.apis import APIS, ApiKey
from testing import wire
from testing.processes import eventually
from testing.servers import Server
from testing.wire import WireClient
from tests.e2e.conftest import assert_no_traceback, create_topic, make_server
from tests.unit.protocol.strategies import api_messages

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

TOPIC = "victim"
INT_MAX = 2**31 - 1
TINY_REQUESTS = 500_000
# Only a server that hangs meets it: what a request costs is measured by bench.
NEIGHBOUR_ROUND_TRIP_MAX_S = 20.0
REASON_WAIT_S = 30.0
HOSTILE_EXAMPLES = 6 * settings.default.max_examples  # type: ignore[union-attr]
REFUSED_CONNECTIONS = 500


@pytest.fixture(scope="module")
def hardy_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = make_server(tmp_path_factory.mktemp("hardy") / "data")
    server.start()
    create_topic(server, TOPIC)
    with WireClient(server.port) as client:
        # Apache Kafka tells of a new topic a moment before it leads its partitions.
        first = wire.record_batch([b"first"])
        eventually(lambda: client.produce(TOPIC, first).error_code == wire.NONE, 20, "the topic takes records")
    yield server
    server.close()
    assert_no_traceback(server)


class Neighbour:
    """A well-behaved client: produces a record and reads it back, again and again, and remembers the worst time."""

    def __init__(self, server: Server) -> None:
        self.round_trips = 0
        self.worst_s = 0.0
        self.error: Exception | None = None
        self._client = WireClient(server.port)
        self._finish = threading.Event()
        self._thread = threading.Thread(target=self._run, name="neighbour")
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._finish.is_set():
                began = time.monotonic()
                value = os.urandom(8)
                answer = self._client.produce(TOPIC, wire.record_batch([value]))
                assert answer.error_code == wire.NONE, answer
                fetched = self._client.fetch(TOPIC, answer.base_offset, max_wait_ms=1_000)
                assert fetched.error_code == wire.NONE, fetched
                assert value in fetched.records
                self.worst_s = max(self.worst_s, time.monotonic() - began)
                self.round_trips += 1
        except Exception as error:
            self.error = error

    def more_round_trips(self, count: int = 3) -> None:
        target = self.round_trips + count
        eventually(lambda: self.error or self.round_trips >= target, 30, f"{count} round trips of another client")
        assert self.error is None, repr(self.error)

    def finish(self) -> None:
        self._finish.set()
        self._thread.join(30)
        self._client.close()


@pytest.fixture
def neighbour(hardy_server: Server) -> Iterator[Neighbour]:
    """Another client that must notice nothing for the whole test."""
    other = Neighbour(hardy_server)
    try:
        other.more_round_trips(1)
        yield other
        other.more_round_trips()
    finally:
        other.finish()
    assert other.error is None, repr(other.error)
    assert other.worst_s < NEIGHBOUR_ROUND_TRIP_MAX_S, f"another client waited {other.worst_s:.1f} s"
    assert hardy_server.is_running


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def header(api_key: int, version: int) -> bytes:
    return struct.pack(">hhi", api_key, version, 1) + wire.string("bad")


# A message of these that happens to be whole may rightly make thousands of partitions.
LARGE_WHEN_VALID = {ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS}
ABSURD_ARRAY = struct.pack(">i", INT_MAX)
BAD_FRAMES = {
    "oversized": struct.pack(">i", INT_MAX) + b"x" * 1_000,
    "negative length": struct.pack(">i", -5),
    "empty frame": frame(b""),
    "half a header": frame(b"\0\3\0"),
    "http request": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "tls hello": bytes.fromhex("16030100c8010000c40303") + b"\x11" * 200,
    "unknown api": frame(header(999, 0)),
    "negative api": frame(header(-3, 0)),
    "unknown version": frame(header(wire.METADATA, 99) + b"\0" * 20),
    "negative version": frame(header(wire.FETCH, -1) + b"\0" * 20),
    "client id beyond the frame": frame(struct.pack(">hhih", wire.METADATA, 1, 1, 30_000)),
    "metadata for 2^31 topics": frame(header(wire.METADATA, 1) + ABSURD_ARRAY),
    "produce to 2^31 topics": frame(header(wire.PRODUCE, 3) + struct.pack(">hhi", -1, -1, 1_000) + ABSURD_ARRAY),
    "fetch of 2^31 topics": frame(header(wire.FETCH, 4) + struct.pack(">iiiib", -1, 0, 1, 1_000, 0) + ABSURD_ARRAY),
    "list offsets of 2^31 topics": frame(header(wire.LIST_OFFSETS, 1) + struct.pack(">i", -1) + ABSURD_ARRAY),
    "compact array of 2^32 topics": frame(header(wire.METADATA, 9) + b"\0" + b"\xff\xff\xff\xff\x0f"),
    "endless varint": frame(header(wire.METADATA, 9) + b"\0" + b"\xff" * 20),
    "topic name beyond the frame": frame(header(wire.METADATA, 1) + struct.pack(">ih", 1, 20_000) + b"abc"),
    "records beyond the frame": frame(
        header(wire.PRODUCE, 3)
        + struct.pack(">hhii", -1, -1, 1_000, 1)
        + wire.string(TOPIC)
        + struct.pack(">iii", 1, 0, 1_000_000)
        + b"short"
    ),
}


@pytest.mark.parametrize("data", BAD_FRAMES.values(), ids=BAD_FRAMES.keys())
def test_bad_frame_closes_its_connection(hardy_server: Server, neighbour: Neighbour, data: bytes) -> None:
    size_before = hardy_server.log_file.stat().st_size
    sent = 0

    def closed_and_logged() -> list[str]:
        """The reasons logged so far. A storm is summed up in one line a second, so one line may take a second try."""
        nonlocal sent
        with WireClient(hardy_server.port) as client:
            client.send_raw(data)
            assert client.is_closed_by_peer(), "the connection stays open"
        sent += 1
        if hardy_server.name != "bmq":
            return ["Apache Kafka logs a stack trace"]
        written = hardy_server.log_file.read_bytes()[size_before:].decode()
        # The last line may still be written.
        events = [json.loads(line) for line in written[: written.rfind("\n") + 1].splitlines()]
        return [event["reason"] for event in events if event["event"] == "connection_closed"]

    reasons = eventually(closed_and_logged, REASON_WAIT_S, "the reason in the log", interval_s=0.25)
    assert len(reasons) <= sent, "more than one line for a closed connection"
    assert len(set(reasons)) == 1


@pytest.mark.parametrize("sent", [1, 3, 4, 9, 25])
def test_truncated_frame_is_dropped(hardy_server: Server, neighbour: Neighbour, sent: int) -> None:
    whole = wire.request(wire.PRODUCE, 3, wire.produce_body(TOPIC, 0, wire.record_batch([b"never"])))
    with WireClient(hardy_server.port) as client:
        client.send_raw(whole[:sent])
        client.finish_sending()
        assert client.is_closed_by_peer()
    neighbour.more_round_trips()


@st.composite
def hostile_payloads(draw: st.DrawFn) -> bytes:
    """What a frame holds: noise, noise behind a header, or a message that is cut short, flipped in places, or whole."""
    shape = draw(st.sampled_from(["noise", "body", "message"]))
    if shape == "noise":
        return draw(st.binary(max_size=300))
    api_key = draw(st.sampled_from(sorted(APIS.keys() - LARGE_WHEN_VALID)))
    if shape == "body":
        return header(api_key, draw(st.integers(-1, 25))) + draw(st.binary(max_size=200))
    version = draw(st.integers(APIS[api_key].version_min, APIS[api_key].version_max))
    message = draw(api_messages("request", api_key, version))
    tags = b"\0" if codec.is_flexible(api_key, version) else b""
    whole = bytearray(header(api_key, version) + tags + codec.encode("request", api_key, version, message))
    for _ in range(draw(st.integers(0, 3))):
        whole[draw(st.integers(0, len(whole) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(whole[: draw(st.integers(0, len(whole)))]) if draw(st.booleans()) else bytes(whole)


@pytest.mark.bmq_only
@settings(max_examples=HOSTILE_EXAMPLES)
@given(payload=hostile_payloads())
def test_any_frame_is_answered_in_whole_frames_or_closes_its_connection(
    hardy_server: Server, neighbour: Neighbour, payload: bytes
) -> None:
    """The client closes its side behind the frame, so that the server has no reason to keep the connection."""
    asked = struct.unpack_from(">hhi", payload)[2] if len(payload) >= 8 else None
    with WireClient(hardy_server.port) as client:
        client.send_raw(frame(payload))
        client.finish_sending()
        answers = client.receive_until_closed()
    assert len(answers) <= 1, "one request was answered twice"
    assert all(struct.unpack_from(">i", answer)[0] == asked for answer in answers)
    assert hardy_server.is_running
    neighbour.more_round_trips(1)


def test_unknown_api_versions_version_is_answered_in_the_first_shape(
    hardy_server: Server, neighbour: Neighbour
) -> None:
    with WireClient(hardy_server.port) as client:
        # No tagged fields in the header, then the two compact strings and the tags that every version since 3 begins with.
        client.send_raw(wire.request(wire.API_VERSIONS, 99, b"\0" + b"\x05wire\x021" + b"\0", correlation_id=7))
        reader = wire.Reader(client.receive_frame())
        assert reader.take(">ih") == (7, wire.UNSUPPORTED_VERSION)
        ranges = [reader.take(">hhh") for _ in range(reader.one(">i"))]
        assert wire.API_VERSIONS in {key for key, _, _ in ranges}
        # The connection is still good: this is how a client finds the version to speak.
        assert client.api_versions()[wire.PRODUCE][1] >= 13


WHOLE = wire.record_batch([b"good"])
BAD_BATCHES = {
    "wrong crc": (wire.record_batch([b"bad"], crc_error=1), wire.CORRUPT_MESSAGE),
    "flipped bit in a record": (WHOLE[:-3] + bytes([WHOLE[-3] ^ 0x10]) + WHOLE[-2:], wire.CORRUPT_MESSAGE),
    "magic 0": (wire.old_message_set(0, b"old"), wire.INVALID_RECORD),
    "magic 1": (wire.old_message_set(1, b"old"), wire.INVALID_RECORD),
    "two batches": (WHOLE + WHOLE, wire.INVALID_RECORD),
}


@pytest.mark.parametrize(("records", "error_code"), BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
def test_bad_batch_is_refused(hardy_server: Server, neighbour: Neighbour, records: bytes, error_code: int) -> None:
    with WireClient(hardy_server.port) as client:
        assert client.produce(TOPIC, records).error_code == error_code
        # The connection stays good, and the batch is not in the log.
        answer = client.produce(TOPIC, wire.record_batch([b"next"]))
        assert answer.error_code == wire.NONE
        assert b"next" in client.fetch(TOPIC, answer.base_offset).records


def test_bad_partition_and_bad_topic(hardy_server: Server, neighbour: Neighbour) -> None:
    with WireClient(hardy_server.port) as client:
        for partition in (-1, 1, INT_MAX):
            answer = client.produce(TOPIC, WHOLE, partition=partition)
            assert answer.error_code == wire.UNKNOWN_TOPIC_OR_PARTITION
            assert client.fetch(TOPIC, 0, partition=partition).error_code == wire.UNKNOWN_TOPIC_OR_PARTITION
        assert client.produce("../../etc/passwd", WHOLE).error_code == wire.UNKNOWN_TOPIC_OR_PARTITION
        assert client.fetch(TOPIC, 2**60).error_code == wire.OFFSET_OUT_OF_RANGE
        assert client.fetch(TOPIC, -7).error_code == wire.OFFSET_OUT_OF_RANGE


def test_out_of_order_sequence_is_refused(hardy_server: Server, neighbour: Neighbour) -> None:
    """The window of an idempotent producer: a gap is refused, a repeated batch is answered with its first offset."""
    producer_id = 9_000_000_001
    with WireClient(hardy_server.port) as client:

        def send(sequence: int, epoch: int = 0) -> wire.ProduceAnswer:
            batch = wire.record_batch([b"a", b"b"], producer_id, epoch, sequence)
            return client.produce(TOPIC, batch)

        first, second = send(0), send(2)
        assert (first.error_code, second.error_code) == (wire.NONE, wire.NONE)
        assert send(2) == second, "a repeated batch has the offset of the first"
        assert send(0) == first
        assert send(9).error_code == wire.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(4).error_code == wire.NONE
        assert send(0, epoch=1).error_code == wire.NONE
        assert send(6, epoch=0).error_code == wire.INVALID_PRODUCER_EPOCH


def test_silent_clients(hardy_server: Server, neighbour: Neighbour) -> None:
    with ExitStack() as clients:
        silent = [clients.enter_context(WireClient(hardy_server.port)) for _ in range(300)]
        for client in silent[::3]:
            client.send_raw(b"\0\0")
        neighbour.more_round_trips(20)


def test_client_that_never_reads(hardy_server: Server, neighbour: Neighbour) -> None:
    """It asks for 4 GB of records and takes none: the server's memory stays where it was."""
    with WireClient(hardy_server.port) as producer:
        batch = wire.record_batch([os.urandom(1_000_000)])
        answers = [producer.produce(TOPIC, batch) for _ in range(16)]
        assert {answer.error_code for answer in answers} == {wire.NONE}
        start = answers[0].base_offset
    process = psutil.Process(hardy_server.pid)
    before_bytes = process.memory_info().rss
    fetch = wire.request(wire.FETCH, 4, wire.fetch_body(TOPIC, 0, start, max_bytes=1 << 20))
    with ExitStack() as clients:
        greedy = [
            clients.enter_context(WireClient(hardy_server.port, timeout_s=1, receive_buffer_bytes=4_096))
            for _ in range(4)
        ]
        for client in greedy:
            pending = memoryview(fetch * 1_000)
            while pending:
                try:
                    pending = pending[client.send_some(pending) :]
                except TimeoutError:
                    break  # the server stopped reading: as it should
        for _ in range(10):
            neighbour.more_round_trips(200)
        if hardy_server.name == "bmq":
            grown_mib = (process.memory_info().rss - before_bytes) / 2**20
            assert grown_mib < 200, f"memory grew by {grown_mib:.0f} MiB"


@pytest.mark.campaign("kills")
def test_half_a_million_tiny_requests(hardy_server: Server, neighbour: Neighbour) -> None:
    """One client pipelines them as fast as it can; each is answered, in order."""
    tiny = b"".join(
        wire.request(wire.API_VERSIONS, 0, b"", correlation_id=number, client_id=None)
        for number in range(TINY_REQUESTS)
    )
    with WireClient(hardy_server.port, timeout_s=60) as client:
        sender = threading.Thread(target=client.send_raw, args=(tiny,), name="tiny-requests")
        sender.start()
        try:
            for number in range(TINY_REQUESTS):
                answered = client.receive_frame()
                assert answered[:6] == struct.pack(">ih", number, wire.NONE)
        finally:
            sender.join(30)
    assert not sender.is_alive()


@pytest.mark.campaign("kills")
def test_a_storm_of_refused_connections(hardy_server: Server, neighbour: Neighbour) -> None:
    """Connections that are refused at once, one after the other."""
    for _ in range(REFUSED_CONNECTIONS):
        with WireClient(hardy_server.port) as client:
            client.send_raw(BAD_FRAMES["unknown api"])
            assert client.is_closed_by_peer()
    neighbour.more_round_trips()
