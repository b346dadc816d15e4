"""A Kafka client made of `struct` alone, so that a test can send what no client would.

Only old, non-flexible versions are spoken: Produce 3, Fetch 4, ListOffsets 1, ApiVersions 0. Nothing here uses bmq's
own codec: a mistake there must not hide itself.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import crc32c

from testing.patience import Patience

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18

NONE = 0
OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER_OR_FOLLOWER = 6
MESSAGE_TOO_LARGE = 10
UNSUPPORTED_VERSION = 35
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
INVALID_RECORD = 87
KAFKA_STORAGE_ERROR = 56

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1

TRANSACTIONAL = 1 << 4  # a bit of a batch's attributes
TIMESTAMP_MS = 1_700_000_000_000


def string(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def request(api_key: int, version: int, body: bytes, correlation_id: int = 1, client_id: str | None = "wire") -> bytes:
    """One request with its length in front; header version 1."""
    payload = struct.pack(">hhi", api_key, version, correlation_id) + string(client_id) + body
    return struct.pack(">i", len(payload)) + payload


def varint(value: int) -> bytes:
    """A signed varint (zigzag), as in records."""
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def record(offset_delta: int, value: bytes, key: bytes | None = None) -> bytes:
    key_part = varint(-1) if key is None else varint(len(key)) + key
    body = b"\0" + varint(0) + varint(offset_delta) + key_part + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def record_batch(
    values: Sequence[bytes],
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    magic: int = 2,
    crc_error: int = 0,
    is_transactional: bool = False,
    timestamp_ms: int = TIMESTAMP_MS,
) -> bytes:
    """An uncompressed record batch v2. A `crc_error` other than 0 is xor-ed into its checksum."""
    count = len(values)
    attributes = TRANSACTIONAL if is_transactional else 0
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        count - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) + b"".join(record(index, value) for index, value in enumerate(values))
    crc = crc32c.crc32c(checked) ^ crc_error
    after_length = struct.pack(">ibI", -1, magic, crc) + checked
    return struct.pack(">qi", 0, len(after_length)) + after_length


def end_offset_of(records: bytes) -> int:
    """The offset behind the last of these whole batches; -1 when there are none."""
    end_offset, position = -1, 0
    while position < len(records):
        base_offset, length = struct.unpack_from(">qi", records, position)
        end_offset = base_offset + struct.unpack_from(">i", records, position + 23)[0] + 1
        position += 12 + length
    return end_offset


def old_message_set(magic: int, value: bytes) -> bytes:
    """A message of Kafka 0.8 (magic 0) or 0.10 (magic 1), with its right CRC-32."""
    attributes = struct.pack(">bb", magic, 0) + (struct.pack(">q", TIMESTAMP_MS) if magic == 1 else b"")
    checked = attributes + struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(checked)) + checked
    return struct.pack(">qi", 0, len(message)) + message


def produce_body(topic: str, partition: int, records: bytes, acks: int = -1, timeout_ms: int = 30_000) -> bytes:
    data = struct.pack(">i", partition) + struct.pack(">i", len(records)) + records
    topics = struct.pack(">i", 1) + string(topic) + struct.pack(">i", 1) + data
    return string(None) + struct.pack(">hi", acks, timeout_ms) + topics


def fetch_body(topic: str, partition: int, offset: int, max_wait_ms: int = 0, max_bytes: int = 1 << 20) -> bytes:
    data = struct.pack(">iqi", partition, offset, max_bytes)
    topics = struct.pack(">i", 1) + string(topic) + struct.pack(">i", 1) + data
    return struct.pack(">iiiib", -1, max_wait_ms, 1, max_bytes, 0) + topics


def list_offsets_body(topic: str, partitions: Sequence[int], timestamp_ms: int) -> bytes:
    data = b"".join(struct.pack(">iq", partition, timestamp_ms) for partition in partitions)
    return struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">i", len(partitions)) + data


@dataclass(frozen=True, slots=True)
class ProduceAnswer:
    error_code: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    error_code: int
    high_watermark: int
    records: bytes


class Reader:
    """Walks a response body."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._position = 0

    def take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self._body, self._position)
        self._position += struct.calcsize(layout)
        return values

    def one(self, layout: str) -> int:
        return self.take(layout)[0]

    def raw(self, length: int) -> bytes:
        piece = self._body[self._position : self._position + length]
        self._position += length
        return piece

    def string(self) -> str:
        return self.raw(self.one(">h")).decode()

    @property
    def left(self) -> int:
        return len(self._body) - self._position


def produce_answer(reader: Reader) -> ProduceAnswer:
    """The one partition of a Produce response; the reader stands behind the correlation id."""
    reader.one(">i")
    reader.string()
    _, _, error_code, base_offset, _ = reader.take(">iihqq")
    return ProduceAnswer(error_code, base_offset)


def fetch_answer(reader: Reader) -> FetchAnswer:
    """The one partition of a Fetch response; the reader stands behind the correlation id."""
    reader.take(">ii")
    reader.string()
    _, _, error_code, high_watermark, _, aborted_count = reader.take(">iihqqi")
    for _ in range(max(aborted_count, 0)):
        reader.take(">qq")
    length = reader.one(">i")
    return FetchAnswer(error_code, high_watermark, reader.raw(max(length, 0)))


class WireClient:
    """One connection; use it as a context manager. Every receive is bounded by `timeout_s` of patience. `context`: of TLS, if any."""

    def __init__(
        self,
        port: int,
        timeout_s: float = 20,
        receive_buffer_bytes: int | None = None,
        *,
        host: str = "127.0.0.1",
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._socket = socket.socket()
        if receive_buffer_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._socket.settimeout(Patience(timeout_s).limit_s)
        try:
            self._socket.connect((host, port))
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except OSError:
            self._socket.close()
            raise
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)
        self._reading = self._socket.makefile("rb", buffering=1 << 16)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reading.close()
        self._socket.close()

    def settimeout(self, timeout_s: float) -> None:
        self._socket.settimeout(timeout_s)

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_some(self, data: bytes | memoryview) -> int:
        """As much as the socket takes within its timeout. Raises TimeoutError when it takes nothing."""
        return self._socket.send(data)

    def finish_sending(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def receive_frame(self) -> bytes:
        """One response without its length. Raises ConnectionError when the server closed."""
        (length,) = struct.unpack(">i", self._receive(4))
        return self._receive(length)

    def is_closed_by_peer(self) -> bool:
        """Reads until the end; False when the server sent something else than the end within the timeout."""
        try:
            return self._reading.read(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def receive_until_closed(self) -> list[bytes]:
        """Responses without their lengths, until the server closed. Raises TimeoutError, AssertionError: half a response."""
        found = []
        try:
            while prefix := self._reading.read(4):
                length = struct.unpack(">i", prefix)[0] if len(prefix) == 4 else -1
                body = self._reading.read(max(length, 0))
                assert len(body) == length, f"{len(body)} bytes of a response of {length} ({prefix.hex()})"
                found.append(body)
        except ConnectionResetError:
            pass  # it closed before it had read everything
        return found

    def _receive(self, length: int) -> bytes:
        data = self._reading.read(length)
        if data is None or len(data) < length:
            raise ConnectionResetError("the server closed the connection")
        return data

    def call(self, api_key: int, version: int, body: bytes) -> Reader:
        """Send one request, receive its response; the reader stands behind the correlation id."""
        return self.receive(self.send(api_key, version, body))

    def send(self, api_key: int, version: int, body: bytes) -> int:
        """Send one request; its correlation id."""
        correlation_id = next(self._correlation_ids)
        self.send_raw(request(api_key, version, body, correlation_id))
        return correlation_id

    def receive(self, correlation_id: int) -> Reader:
        """The next response, which must be to this request; the reader stands behind the correlation id."""
        reader = Reader(self.receive_frame())
        answered = reader.one(">i")
        assert answered == correlation_id, f"response {answered} to request {correlation_id}"
        return reader

    def api_versions(self) -> dict[int, tuple[int, int]]:
        """Version range of each advertised API."""
        reader = self.call(API_VERSIONS, 0, b"")
        error_code, count = reader.take(">hi")
        assert error_code == NONE, error_code
        ranges = [reader.take(">hhh") for _ in range(count)]
        return {key: (low, high) for key, low, high in ranges}

    def produce(self, topic: str, records: bytes, partition: int = 0, timeout_ms: int = 30_000) -> ProduceAnswer:
        return produce_answer(self.call(PRODUCE, 3, produce_body(topic, partition, records, timeout_ms=timeout_ms)))

    def fetch(self, topic: str, offset: int, partition: int = 0, max_wait_ms: int = 0) -> FetchAnswer:
        return fetch_answer(self.call(FETCH, 4, fetch_body(topic, partition, offset, max_wait_ms)))

    def list_offsets(self, topic: str, partitions: Sequence[int], timestamp_ms: int) -> dict[int, tuple[int, int]]:
        """(error code, offset) of each partition."""
        reader = self.call(LIST_OFFSETS, 1, list_offsets_body(topic, partitions, timestamp_ms))
        reader.one(">i")
        reader.string()
        answers: dict[int, tuple[int, int]] = {}
        for _ in range(reader.one(">i")):
            partition, error_code, _, offset = reader.take(">ihqq")
            answers[partition] = (error_code, offset)
        return answers
