"""Differences that are meant, each with its reason: the reviewed list. An entry that nothing meets any more is an error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from tests.conformance.answers import SILENT
from tests.conformance.compare import MISSING, Difference

ANY: Final = object()
TEXT: Final = "<text>"


@dataclass(frozen=True, slots=True)
class Intended:
    """`api_keys`: empty for all. `cases`, `paths`: shell patterns. `bmq`, `kafka`: what each may say; ANY for anything."""

    name: str
    reason: str
    api_keys: frozenset[int] = frozenset()
    cases: tuple[str, ...] = ("*",)
    paths: tuple[str, ...] = ("*",)
    bmq: tuple[object, ...] = (ANY,)
    kafka: tuple[object, ...] = (ANY,)

    def meets(self, api_key: int, case: str, difference: Difference) -> bool:
        return (
            (not self.api_keys or api_key in self.api_keys)
            and any(fnmatchcase(case, pattern) for pattern in self.cases)
            and any(fnmatchcase(difference.path, pattern) for pattern in self.paths)
            and (ANY in self.bmq or difference.bmq in self.bmq)
            and (ANY in self.kafka or difference.kafka in self.kafka)
        )


PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, JOIN_GROUP, DESCRIBE_GROUPS, API_VERSIONS, LEADER_EPOCH = (
    0,
    1,
    2,
    3,
    10,
    11,
    15,
    18,
    23,
)
CREATE_TOPICS, ADD_PARTITIONS, DESCRIBE_CONFIGS, ALTER_CONFIGS, LOG_DIRS, CREATE_PARTITIONS = 19, 24, 32, 33, 35, 37
INCREMENTAL, FEATURES, CONSUMER_HEARTBEAT, TOPIC_PARTITIONS, SHARE_FETCH, STREAMS_HEARTBEAT = 44, 57, 68, 75, 78, 88

INTENDED: Final[tuple[Intended, ...]] = (
    Intended(
        "A reason in words",
        "bmq says in the field for it why something was refused where Kafka leaves the field null or empty. Clients show the text and decide by the code.",
        paths=("*error_message",),
        bmq=(TEXT,),
        kafka=(None, ""),
    ),
    Intended(
        "Kafka 4.4",
        "bmq speaks the versions and the APIs that Kafka 4.4 has added; the server beside it is 4.3.",
        frozenset({API_VERSIONS}),
        paths=(
            "api_keys/18/max_version",
            "api_keys/28/max_version",
            "api_keys/42/max_version",
            "api_keys/88/max_version",
            "api_keys/89/max_version",
            "api_keys/93",
            "api_keys/94",
        ),
    ),
    Intended(
        "Dead letters of share groups",
        "bmq has those of Kafka 4.4 (KIP-1191): the feature's level and the topics' setting; the server beside it is 4.3.",
        frozenset({API_VERSIONS, CREATE_TOPICS, DESCRIBE_CONFIGS}),
        paths=("*_features/share.version/*", "*/configs/errors.deadletterqueue.*"),
    ),
    Intended(
        "APIs that are not served",
        "bmq does not announce APIs that it does not serve (`k` in the table, and APIs that only Kafka's brokers send each other).",
        frozenset({API_VERSIONS}),
        paths=("api_keys/*",),
        bmq=(MISSING,),
    ),
    Intended(
        "Features of parts that bmq does not have",
        "KRaft's metadata and quorum, and eligible leader replicas: bmq has nothing that a client could use at these levels, so it does not announce them.",
        frozenset({API_VERSIONS}),
        paths=tuple(
            f"{kind}_features/{name}"
            for kind in ("supported", "finalized")
            for name in ("metadata.version", "kraft.version", "eligible.leader.replicas.version")
        ),
        bmq=(MISSING,),
    ),
    Intended(
        "Kafka does not answer",
        "Kafka throws internally and its client waits. bmq says what is wrong with the request, or that it asked for nothing.",
        frozenset({PRODUCE, JOIN_GROUP, ADD_PARTITIONS, ALTER_CONFIGS}),
        kafka=(SILENT,),
    ),
    Intended(
        "Kafka's UNKNOWN_SERVER_ERROR",
        "Kafka throws internally and reports only that. bmq answers with the code that says what is wrong, or serves the valid part.",
        frozenset({PRODUCE, METADATA, JOIN_GROUP, CREATE_PARTITIONS, INCREMENTAL, TOPIC_PARTITIONS}),
        (
            "a codec that does not exist",
            "neither name nor id",
            "a group of the newer protocol",
            "far too many partitions",
            "an operation that does not exist",
            "names that are not allowed",
        ),
    ),
    Intended(
        "A negative number of bytes",
        "Kafka throws and answers UNKNOWN_SERVER_ERROR. bmq treats it as zero and still returns one batch (KIP-74).",
        frozenset({FETCH}),
        ("a negative number of bytes",),
    ),
    Intended(
        "An unknown topic beside known ones",
        "bmq answers a fetch that names one at once, as it does with any other error. Kafka waits for the other partitions as long as it would without it.",
        frozenset({FETCH}),
        ("unknown topics beside known ones, for more bytes than there are",),
        kafka=(SILENT,),
    ),
    Intended(
        "Records that clients read differently",
        "An offset delta that is not the record's place in its batch, a compressed record that is longer or shorter than it says, a length below -1, and a number with more bits than its type are INVALID_RECORD. "
        "Kafka stores such records, answers UNKNOWN_SERVER_ERROR or names the time that it read. Its own consumers stop at some of them and misread others.",
        frozenset({PRODUCE}),
        (
            "*: offsets from 1 on",
            "*: the same offset twice",
            "*: offsets with a gap",
            "*: offsets that go back",
            "*: an offset below 0",
            "*: an offset delta of *",
            "*: a length of *",
            "*: a length one too short",
            "*: a first length one too long",
            "*: a time delta of ten bytes",
            "*: a key of -*",
            "*: a value of -2 bytes",
            "*: a header's value of -7 bytes",
            "uncompressed: bytes of 0xff",
            "*: flip *",
        ),
    ),
    Intended(
        "Compressed bodies that clients read differently",
        "Bytes behind the end of a stream, a second LZ4 frame, a second snappy header, an LZ4 size or checksum that is wrong and reserved flags of gzip are refused like any damaged stream. "
        "Kafka's reader checks none of these; readers of other clients fail, or read on where Kafka's stops.",
        frozenset({PRODUCE}),
        (
            "gzip: a byte behind the stream",
            "gzip: bytes behind the stream",
            "gzip: a gzip header with reserved flags",
            "snappy: a byte behind the stream",
            "snappy: the stream twice",
            "snappy: the records in two streams",
            "lz4: a byte behind the stream",
            "lz4: bytes behind the stream",
            "lz4: the stream twice",
            "lz4: the records in two streams",
            "lz4: LZ4: a wrong size",
            "lz4: LZ4: a wrong content checksum",
        ),
    ),
    Intended(
        "The newest of records without a time",
        "Kafka answers with the first of them and the time -1. bmq says that no record has a time.",
        frozenset({PRODUCE}),
        ("*: a first time of -1",),
        ("after/newest/*",),
    ),
    Intended(
        "Half of a producer's identity",
        "A transactional batch without a producer id, or a producer id with epoch -1, is INVALID_RECORD. Kafka does not check it and stores the batch. No server gives out such an identity.",
        frozenset({PRODUCE}),
        ("a transactional batch with an id and without a producer", "a producer without an epoch"),
    ),
    Intended(
        "The time of a repeated batch",
        "Kafka gives the batch's last timestamp as the time of its append, though the topic's times are the producers'. bmq answers as it did the first time.",
        frozenset({PRODUCE}),
        ("the same batch again",),
        ("*/log_append_time_ms",),
    ),
    Intended(
        "The marker behind the last record",
        "A fetch may end behind any batch: bmq's answer has the marker that ends the transaction as well, Kafka leaves it to the next fetch.",
        frozenset({FETCH}),
        ("read committed: an aborted transaction", "read uncommitted: an aborted transaction"),
        ("responses/*/partitions/0/records/1",),
        kafka=(MISSING,),
    ),
    Intended(
        "A topic that is made on its first use",
        "bmq makes it before it answers. Kafka answers UNKNOWN_TOPIC_OR_PARTITION, makes it meanwhile, and the client asks again.",
        frozenset({METADATA}),
        ("a topic that may be made",),
    ),
    Intended(
        "Settings of bmq",
        "`bmq.durability` and `bmq.segment.idle.close.ms` are settings of every topic here, shown where clients list settings.",
        frozenset({CREATE_TOPICS, DESCRIBE_CONFIGS}),
        paths=("*/configs/bmq.*",),
        kafka=(MISSING,),
    ),
    Intended(
        "segment.bytes",
        "128 MiB by default in place of 1 GiB, as a static setting of the brokers: on HDFS an open block reserves its whole size.",
        frozenset({CREATE_TOPICS, DESCRIBE_CONFIGS}),
        paths=("*/configs/segment.bytes/*",),
    ),
    Intended(
        "min.insync.replicas as a cluster's default",
        "Kafka's feature for eligible leader replicas fixes it in the cluster's dynamic settings. There are no such replicas here, so it is a plain default.",
        frozenset({CREATE_TOPICS, DESCRIBE_CONFIGS}),
        paths=("*/configs/min.insync.replicas", "*/configs/min.insync.replicas/config_source"),
    ),
    Intended(
        "Room of a log directory",
        "All nodes share the store with other users. Its room belongs to no node, so no node reports it.",
        frozenset({LOG_DIRS}),
        paths=("results/*/total_bytes", "results/*/usable_bytes"),
        bmq=(-1,),
    ),
    Intended(
        "Heartbeats of a group that is not settled",
        "A member whose group has a new assignment is told to send its next heartbeat after 1 s instead of 5, so that groups settle sooner.",
        frozenset({CONSUMER_HEARTBEAT}),
        paths=("heartbeat_interval_ms",),
        bmq=(1_000,),
        kafka=(5_000,),
    ),
    Intended(
        "The type of a group of another protocol",
        "DescribeGroups below version 6 has no code for an existing group of another protocol: it is Dead. bmq says its type beside that, as its own nodes ask in this form "
        "whether a group is gone.",
        frozenset({DESCRIBE_GROUPS}),
        ("a group of the newer protocol",),
        ("groups/*/protocol_type",),
        kafka=("",),
    ),
    Intended(
        "The leader's address for replicas",
        "Kafka sends it to consumers only. bmq has no followers among its clients, and sends it with every fetch that reached the wrong node.",
        frozenset({FETCH}),
        ("of a follower that does not exist",),
        ("node_endpoints/*",),
        kafka=(MISSING,),
    ),
    Intended(
        "A feature named twice",
        "bmq refuses the request; Kafka lets the last of them win.",
        frozenset({FEATURES}),
        ("a feature twice",),
    ),
    Intended(
        "A first share fetch of unknown topics alone",
        "Kafka 4.3 answers the whole request with UNKNOWN_SERVER_ERROR. bmq answers each partition with UNKNOWN_TOPIC_ID, as both do beside a known one.",
        frozenset({SHARE_FETCH}),
        ("an unknown topic", "a byte behind the body", "an unknown tagged field", "no client id"),
        ("error_code", "acquisition_lock_timeout_ms", "responses/*"),
        kafka=(-1, 0, MISSING),
    ),
    Intended(
        "Settings of streams that no broker of Kafka 4.3 fills in",
        "bmq tells the defaults of KIP-1071 for the acceptable lag and the interval of task offsets, Kafka 4.3 leaves both 0.",
        frozenset({STREAMS_HEARTBEAT}),
        paths=("acceptable_recovery_lag", "task_offset_interval_ms"),
        kafka=(0,),
    ),
)


def reason_for(
    api_key: int, case: str, difference: Difference, entries: Iterable[Intended] = INTENDED
) -> Intended | None:
    """The first entry that this difference meets; None: it is not meant."""
    return next((entry for entry in entries if entry.meets(api_key, case, difference)), None)
