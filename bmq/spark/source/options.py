"""The options of format("bmq"): those of Spark's Kafka connector under the same names, and a few more. Pure.

Spark lower-cases keys, so names are compared without case. A misspelled option is refused, not ignored. Source:
KafkaSourceProvider of Spark 4.2.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import re2

from bmq.protocol.errors import BmqError
from bmq.protocol.topic_names import InvalidTopicName, validate_name
from bmq.spark.source.columns import COLUMNS, DEFAULT_COLUMNS

EARLIEST: Final = -2
LATEST: Final = -1
BYTES_PER_PARTITION: Final = 128 << 20
ROOT_NONE: Final = "none"
KAFKA_PORT: Final = 9092

Partition = tuple[str, int]
"""(topic, partition)."""

_REQUEST_TIMEOUT_MS: Final = 30_000
_POLL_TIMEOUT_MS: Final = 120_000
_PLAN_TIMEOUT_MS: Final = 60_000
"""As Kafka's default.api.timeout.ms: somebody may be waiting for the plan."""
MIN_PARTITIONS_MAX: Final = 100_000
_REFUSED: Final[Mapping[str, str]] = {
    "auto.offset.reset": "use startingOffsets",
    "key.deserializer": "keys are always binary",
    "value.deserializer": "values are always binary",
    "key.serializer": "keys are always binary",
    "value.serializer": "values are always binary",
    "enable.auto.commit": "offsets are kept by Spark",
    "interceptor.classes": "no Kafka client of Java reads here",
}
_KNOWN: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxBytesPerPartition",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "includeHeaders",
    "columns",
    "bmq.root",
    "bmq.hdfs.user",
    "bmq.topic.ids",
    "kafkaConsumer.pollTimeoutMs",
)
_WITHOUT_EFFECT: Final = ("groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "topic", "path")
_NOT_SERVED: Final = ("minOffsetsPerTrigger", "maxTriggerDelay")
_NAMES: Final = {name.lower(): name for name in (*_KNOWN, *_WITHOUT_EFFECT, *_NOT_SERVED)}
_NUMBER_MAX: Final = (1 << 63) - 1
_MILLISECONDS_MAX: Final = (1 << 31) - 1
_DIGITS_MAX: Final = 19
_SIZE: Final = re.compile(r"(\d{1,19})\s*([kmgt]?)b?", re.ASCII | re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class BadOption(BmqError):
    """An option that is wrong, missing or contradicts another; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics to read: `topics` by name, or those whose whole name `pattern` matches, or only these `partitions`."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[Partition, ...] = ()

    def takes(self, topic: str) -> bool:
        """Whether a topic of the cluster is selected."""
        if self.pattern:
            return re2.fullmatch(self.pattern, topic) is not None
        return topic in self.topics

    @property
    def names(self) -> tuple[str, ...] | None:
        """The topics that must exist; None for a pattern, which may match none."""
        return None if self.pattern else self.topics


@dataclass(frozen=True, slots=True)
class Everywhere:
    """EARLIEST or LATEST, for all partitions."""

    offset: int


@dataclass(frozen=True, slots=True)
class EachOffset:
    """An offset per partition, which may be EARLIEST or LATEST."""

    offsets: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record at or past a time: `everywhere_ms`, or `each_ms` of each partition."""

    everywhere_ms: int | None
    each_ms: Mapping[Partition, int]

    def of(self, partition: Partition) -> int:
        """Milliseconds since 1970. Raises KeyError for a partition that was not named."""
        return self.each_ms[partition] if self.everywhere_ms is None else self.everywhere_ms


Position = Everywhere | EachOffset | AtTimestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """All options, checked. Pickled to the executors."""

    bootstrap: tuple[tuple[str, int], ...]
    subscription: Subscription
    starting: Position
    ending: Position
    is_latest_without_match: bool
    is_committed: bool
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    root: str
    hdfs_user: str
    min_partitions: int
    records_per_partition: int | None
    bytes_per_partition: int
    offsets_per_trigger: int | None
    bytes_per_trigger: int | None
    client_id: str
    request_timeout_s: float
    poll_timeout_s: float
    plan_timeout_s: float
    topic_ids: Mapping[str, UUID]


def read_options(given: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """Raises BadOption."""
    options = {key.lower(): value.strip() for key, value in given.items()}
    kafka = {key.removeprefix("kafka."): value for key, value in options.items() if key.startswith("kafka.")}
    _refuse_unknown(options, kafka)
    subscription = _subscription(options)
    starting = _position(options, "starting", LATEST if is_stream else EARLIEST)
    ending = _position(options, "ending", LATEST)
    if is_stream:
        if named := next((n for n in options if n.startswith("ending")), None):
            raise BadOption(f"{_NAMES[named]} is for batch reads: a stream has no end")
    else:
        _refuse_batch_edges(starting, ending)
    isolation = kafka.get("isolation.level", "read_uncommitted").lower()
    if isolation not in ("read_committed", "read_uncommitted"):
        raise BadOption(f"kafka.isolation.level is {isolation!r}: it is read_committed or read_uncommitted")
    return ReadOptions(
        bootstrap=_bootstrap(kafka),
        subscription=subscription,
        starting=starting,
        ending=ending,
        is_latest_without_match=_one_of(options, "startingOffsetsByTimestampStrategy", "error", "latest") == "latest",
        is_committed=isolation == "read_committed",
        fail_on_data_loss=_flag(options, "failOnDataLoss", True),
        columns=_columns(options),
        root=options.get("bmq.root", ""),
        hdfs_user=options.get("bmq.hdfs.user", ""),
        min_partitions=_min_partitions(options),
        records_per_partition=_count(options, "maxRecordsPerPartition"),
        bytes_per_partition=_size(options, "maxBytesPerPartition") or BYTES_PER_PARTITION,
        offsets_per_trigger=_count(options, "maxOffsetsPerTrigger") if is_stream else None,
        bytes_per_trigger=_size(options, "maxBytesPerTrigger") if is_stream else None,
        client_id=kafka.get("client.id", "spark-bmq"),
        request_timeout_s=_milliseconds(kafka, "request.timeout.ms", "kafka.", _REQUEST_TIMEOUT_MS) / 1000,
        poll_timeout_s=_milliseconds(options, "kafkaconsumer.polltimeoutms", "", _POLL_TIMEOUT_MS) / 1000,
        plan_timeout_s=_milliseconds(options, "kafkaconsumer.polltimeoutms", "", _PLAN_TIMEOUT_MS) / 1000,
        topic_ids=_topic_ids(options),
    )


def columns_of(given: Mapping[str, str]) -> tuple[str, ...]:
    """Only the columns, for the schema. Raises BadOption."""
    return _columns({key.lower(): value.strip() for key, value in given.items()})


def _refuse_unknown(options: Mapping[str, str], kafka: Mapping[str, str]) -> None:
    for key in options:
        if not key.startswith("kafka.") and key not in _NAMES:
            raise BadOption(f"format('bmq') has no option {key!r}; it has {', '.join(_KNOWN)} and kafka.*")
    for name in _NOT_SERVED:
        if name.lower() in options:
            raise BadOption(f"{name} is not served by format('bmq'): let the trigger's interval gather records")
    for key, why in _REFUSED.items():
        if key in kafka:
            raise BadOption(f"kafka.{key} cannot be set: {why}")
    protocol = kafka.get("security.protocol", "PLAINTEXT")
    if protocol.upper() != "PLAINTEXT":
        raise BadOption(
            f"kafka.security.protocol is {protocol!r}: format('bmq') does not log in to proxies; name a listener without logins"
            " and TLS, or read by format('kafka')"
        )


def _bootstrap(kafka: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    text = kafka.get("bootstrap.servers", "")
    if not text:
        raise BadOption("kafka.bootstrap.servers is missing: name the cluster's proxies as HOST:PORT,HOST:PORT")
    found = []
    for part in (part.strip() for part in text.split(",")):
        host, _, port = part.rpartition(":")
        if not host:
            host, port = part, str(KAFKA_PORT)
        if not host.strip("[]") or not _is_number(port) or not 0 < int(port) < 65536:
            raise BadOption(f"kafka.bootstrap.servers has {part!r}: it is a list of HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    return tuple(found)


def _subscription(options: Mapping[str, str]) -> Subscription:
    kinds = [name for name in ("subscribe", "subscribePattern", "assign") if options.get(name.lower())]
    if len(kinds) != 1:
        given = "none is given" if not kinds else f"{' and '.join(kinds)} are given"
        raise BadOption(f"one of subscribe, subscribePattern and assign is needed, {given}")
    text = options[kinds[0].lower()]
    if kinds[0] == "subscribePattern":
        try:
            re2.compile(text)
        except re2.error as error:
            raise BadOption(f"subscribePattern {text!r} is no regular expression: {error}") from None
        return Subscription(pattern=text)
    if kinds[0] == "assign":
        lists = _json_object(text, "assign", '{"topic":[0,1]}')
        pairs = []
        for topic, numbers in lists.items():
            if not isinstance(numbers, list) or not all(_is_whole(number) and number >= 0 for number in numbers):
                raise BadOption(f'assign has {numbers!r} for topic {topic!r}: it is written {{"topic":[0,1]}}')
            pairs += [(topic, int(number)) for number in numbers]
        if not pairs:
            raise BadOption("assign names no partition")
        topics, partitions = tuple(lists), tuple(sorted(set(pairs)))
    else:
        topics, partitions = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip())), ()
        if not topics:
            raise BadOption("subscribe names no topic")
    for name in topics:
        try:
            validate_name(name)
        except InvalidTopicName as error:
            raise BadOption(f"{kinds[0]}: {error}") from None
    return Subscription(topics=topics, partitions=partitions)


def _topic_ids(options: Mapping[str, str]) -> dict[str, UUID]:
    """Ids as Kafka's clients write them: Base64 for URLs, without padding."""
    text = options.get("bmq.topic.ids", "")
    form = '{"topic":"uJ5T6bGfQ1yY0Vw3kq2m4A"}'
    found: dict[str, UUID] = {}
    for topic, topic_id in (_json_object(text, "bmq.topic.ids", form) if text else {}).items():
        try:
            found[topic] = UUID(bytes=base64.b64decode(f"{topic_id}==", altchars=b"-_", validate=True))
        except ValueError:
            raise BadOption(f"bmq.topic.ids has {topic_id!r} for topic {topic!r}: it is written {form}") from None
    return found


def _position(options: Mapping[str, str], edge: str, otherwise: int) -> Position:
    """`edge`: starting or ending. One time for all wins over a time for each, which wins over offsets."""
    if text := options.get(f"{edge}timestamp"):
        if not _is_number(text):
            raise BadOption(f"{edge}Timestamp is {text!r}: it is a time in milliseconds since 1970")
        return AtTimestamp(int(text), {})
    if text := options.get(f"{edge}offsetsbytimestamp"):
        return AtTimestamp(None, _of_partitions(text, f"{edge}OffsetsByTimestamp", least=0))
    text = options.get(f"{edge}offsets", "")
    if not text:
        return Everywhere(otherwise)
    if text.lower() in ("earliest", "latest"):
        return Everywhere(EARLIEST if text.lower() == "earliest" else LATEST)
    return EachOffset(_of_partitions(text, f"{edge}Offsets", least=EARLIEST))


def _refuse_batch_edges(starting: Position, ending: Position) -> None:
    if starting == Everywhere(LATEST) or (isinstance(starting, EachOffset) and LATEST in starting.offsets.values()):
        raise BadOption("startingOffsets is latest: a batch read that starts at the end has no records")
    if ending == Everywhere(EARLIEST) or (isinstance(ending, EachOffset) and EARLIEST in ending.offsets.values()):
        raise BadOption("endingOffsets is earliest: a batch read that ends at the beginning has no records")


def _of_partitions(text: str, name: str, *, least: int) -> dict[Partition, int]:
    form = '{"topic":{"0":23,"1":45}}'
    found: dict[Partition, int] = {}
    for topic, numbers in _json_object(text, name, form).items():
        if not isinstance(numbers, dict):
            raise BadOption(f"{name} has {numbers!r} for topic {topic!r}: it is written {form}")
        for partition, number in numbers.items():
            if not _is_number(partition) or not _is_whole(number) or not least <= number <= _NUMBER_MAX:
                raise BadOption(f"{name} has {number!r} for partition {partition!r} of {topic!r}: it is written {form}")
            found[topic, int(partition)] = number
    return found


def _json_object(text: str, name: str, form: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadOption(f"{name} is {text!r}: it is written {form}")
    return found


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    has_headers = _flag(options, "includeHeaders", False)
    text = options.get("columns", "")
    if not text:
        return (*DEFAULT_COLUMNS, "headers") if has_headers else DEFAULT_COLUMNS
    names = {name.lower(): name for name in COLUMNS}
    found = []
    for part in (part.strip() for part in text.split(",")):
        if part.lower() not in names:
            raise BadOption(f"columns has {part!r}: there are {', '.join(COLUMNS)}")
        if names[part.lower()] in found:
            raise BadOption(f"columns has {part!r} twice")
        found.append(names[part.lower()])
    if has_headers and "headers" not in found:
        found.append("headers")
    return tuple(found)


def _flag(options: Mapping[str, str], name: str, otherwise: bool) -> bool:
    return _one_of(options, name, "true" if otherwise else "false", "true" if not otherwise else "false") == "true"


def _one_of(options: Mapping[str, str], name: str, otherwise: str, other: str) -> str:
    value = options.get(name.lower(), otherwise).lower()
    if value not in (otherwise, other):
        raise BadOption(f"{name} is {value!r}: it is {otherwise} or {other}")
    return value


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not _is_number(text) or int(text) < 1:
        raise BadOption(f"{name} is {text!r}: it is a number from 1 on")
    return int(text)


def _min_partitions(options: Mapping[str, str]) -> int:
    count = _count(options, "minPartitions") or 1
    if count > MIN_PARTITIONS_MAX:
        raise BadOption(f"minPartitions is {count}: it is {MIN_PARTITIONS_MAX} at most")
    return count


def _size(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    match = _SIZE.fullmatch(text)
    size = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if not size:
        raise BadOption(f"{name} is {text!r}: it is a number of bytes, such as 134217728 or 128m")
    return size


def _milliseconds(options: Mapping[str, str], key: str, prefix: str, otherwise: int) -> int:
    text = options.get(key, str(otherwise))
    if not _is_number(text) or not 1 <= int(text) <= _MILLISECONDS_MAX:
        raise BadOption(f"{prefix}{_NAMES.get(key, key)} is {text!r}: it is a number of milliseconds")
    return int(text)


def _is_number(text: str) -> bool:
    """Whether it is a number from 0 on that fits into 64 bits."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and int(text) <= _NUMBER_MAX


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
