"""A request to publish, checked, and its answer. Pure."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from bmq.gateway.failure import GatewayFailed, invalid
from bmq.gateway.status import STATUS_NUMBERS
from bmq.gateway.subscription import require_topic
from bmq.gateway.v1 import gateway_pb2

HEADERS_MAX: Final = 1_000
HEADER_NAME_BYTES_MAX: Final = 32_767
NOT_WRITTEN: Final = -1
MESSAGE_CHARACTERS_MAX: Final = 500


NewRecord: TypeAlias = dict[str, Any]
"""Arguments of the producer's `produce`: `value` and `key`, and of `headers`, `partition` and `timestamp` what it names."""


class Publishable(NamedTuple):
    """A request that was checked. `partition_max`: the highest partition that a record names. `is_plain`: all records have a
    value and a key alone.
    """

    topic: str
    records: list[NewRecord]
    partition_max: int
    is_plain: bool


def publishable(request: gateway_pb2.PublishRequest, *, records_max: int, record_bytes_max: int) -> Publishable:
    """Reads each field once: it is what a record costs the gateway.

    Raises GatewayFailed, INVALID_ARGUMENT, before any record is written.
    """
    require_topic(request.topic)
    if not request.records:
        raise invalid("the request has no record")
    if len(request.records) > records_max:
        raise invalid(f"the request has {len(request.records)} records, {records_max} are allowed")
    is_small = request.ByteSize() <= record_bytes_max
    found: list[NewRecord] = []
    partition_max = 0
    is_plain = True
    for index, record in enumerate(request.records):
        if not is_small and record.ByteSize() > record_bytes_max:
            raise invalid(f"record {index} has {record.ByteSize()} bytes, {record_bytes_max} are allowed")
        has = record.HasField
        one: NewRecord = {
            "value": record.value or (b"" if has("value") else None),
            "key": record.key or (b"" if has("key") else None),
        }
        found.append(one)
        if headers := record.headers:
            _require_headers(index, record)
            one["headers"] = [(header.name, header.value if header.HasField("value") else None) for header in headers]
            is_plain = False
        if has("partition"):
            partition = record.partition
            if partition < 0:
                raise invalid(f"record {index} names partition {partition}; leave partition out for the key's")
            partition_max = max(partition_max, partition)
            one["partition"] = partition
            is_plain = False
        if has("timestamp_ms"):
            if record.timestamp_ms <= 0:
                raise invalid(f"record {index} has time {record.timestamp_ms}; leave timestamp_ms out for now")
            one["timestamp"] = record.timestamp_ms
            is_plain = False
    return Publishable(request.topic, found, partition_max, is_plain)


def _require_headers(index: int, record: gateway_pb2.Record) -> None:
    if len(record.headers) > HEADERS_MAX:
        raise invalid(f"record {index} has {len(record.headers)} headers, {HEADERS_MAX} are allowed")
    if any(not 0 < len(header.name.encode()) <= HEADER_NAME_BYTES_MAX for header in record.headers):
        raise invalid(f"record {index} has a header with an empty or too long name")


class Outcome:
    """What became of each record of one request. `done` says when all are known."""

    __slots__ = ("_failures", "_offsets", "_partitions", "_pending")

    def __init__(self, count: int) -> None:
        self._pending = count
        self._partitions = [NOT_WRITTEN] * count
        self._offsets = [NOT_WRITTEN] * count
        self._failures: dict[int, GatewayFailed] = {}

    @property
    def is_done(self) -> bool:
        return self._pending == 0

    def written(self, index: int, partition: int, offset: int) -> bool:
        """Whether it was the last one."""
        self._partitions[index] = partition
        self._offsets[index] = offset
        self._pending -= 1
        return self._pending == 0

    def failed(self, index: int, failure: GatewayFailed) -> bool:
        """Whether it was the last one."""
        self._failures[index] = failure
        self._pending -= 1
        return self._pending == 0

    def common_failure(self) -> GatewayFailed | None:
        """Why no record was written, if that is so."""
        if len(self._failures) < len(self._offsets):
            return None
        return self._failures[0]

    def response(self) -> gateway_pb2.PublishResponse:
        """The answer; neighbours that failed alike stand together."""
        failures: list[gateway_pb2.RecordFailure] = []
        for index, failure in sorted(self._failures.items()):
            last = failures[-1] if failures else None
            message = str(failure)[:MESSAGE_CHARACTERS_MAX]
            if last is not None and last.index + last.count == index and last.message == message:
                last.count += 1
                continue
            failures.append(
                gateway_pb2.RecordFailure(
                    index=index,
                    count=1,
                    code=STATUS_NUMBERS[failure.status],
                    kafka_error=failure.kafka_error,
                    message=message,
                )
            )
        return gateway_pb2.PublishResponse(partitions=self._partitions, offsets=self._offsets, failures=failures)


def all_failed(count: int, failure: GatewayFailed) -> Outcome:
    """The outcome of a request of a stream of which nothing was written."""
    outcome = Outcome(count)
    for index in range(count):
        outcome.failed(index, failure)
    return outcome
