"""Records of `__cluster_metadata`: topics, partitions, configs, nodes, producer ids and features, as KRaft writes them.

A record value is three unsigned varints (frame version 1, API key, version) and then the message; keys are not used.
Numbers and layouts are KRaft's, at its newest versions. Fields for ZooKeeper migration, log directories and eligible
leader replicas, which this controller does not have, keep their defaults and cost at most a byte each. Our own tagged
fields are numbered from 10,000; in logs written before a field existed it reads as its default.
Source: metadata/src/main/resources/common/metadata of Apache Kafka, MetadataRecordSerde.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.protocol.errors import MalformedMessage, UnsupportedVersion
from bmq.protocol.formats import Format, FormatField, codec_of
from bmq.protocol.wire import Buffer, read_unsigned_varint, unsigned_varint

FRAME_VERSION: Final = 1
OWN_API_KEYS_FROM: Final = 10_000
"""API keys of records that KRaft does not have begin here."""
OWN_TAGS_FROM: Final = 10_000
"""Tags of our own fields in KRaft's records begin here."""
LEADER_UNCHANGED: Final = -2
FLOOR_UNCHANGED: Final = -1
NO_TIMESTAMP_MS: Final = -1
RESOURCE_TYPE_TOPIC: Final = 2
RESOURCE_TYPE_BROKER: Final = 4
RESOURCE_TYPE_CLIENT_METRICS: Final = 16
RESOURCE_TYPE_GROUP: Final = 32
RESOURCE_TYPE_TASK: Final = 125
"""Our own type: an operator's task. Releases without it keep such records and ignore them."""
RESOURCE_TYPE_CHANNEL: Final = 126
"""Our own type: a channel of Databus; under the empty name, the version of all channels together.

As with tables, releases without channels keep such records and ignore them.
"""
RESOURCE_TYPE_TABLE: Final = 127
"""Our own type: a table made of a topic.

Releases without tables keep such records, in snapshots too, and ignore them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """An address a node listens on. Security protocol 0 is PLAINTEXT."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFeature:
    """A feature and the levels that a node supports."""

    name: str
    min_supported_version: int
    max_supported_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """A node has started: one incarnation of one node id. It takes part once it is unfenced.

    `end_points` are named: PLAINTEXT for clients, INTERNAL for nodes, REST for operators. `roles`: none named means all.
    """

    broker_id: int
    is_migrating_zk_broker: bool = False
    incarnation_id: UUID | None = None
    broker_epoch: int = -1
    end_points: Sequence[BrokerEndpoint] = ()
    features: Sequence[BrokerFeature] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: Sequence[UUID] = ()
    roles: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    """A node is gone for good."""

    broker_id: int
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord:
    """`fenced`: -1 unfenced, 0 no change, 1 fenced. `in_controlled_shutdown`: the same; KRaft never takes it back."""

    broker_id: int
    broker_epoch: int = -1
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: Sequence[UUID] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic was created; its partitions follow."""

    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic and all its partitions are deleted."""

    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFilesDeletedRecord:
    """The files of a removed topic are gone. Not one of KRaft's: there every broker removes its own replicas."""

    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A whole partition: at its creation, and in snapshots. `high_watermark_floor`: its log's least end offset."""

    partition_id: int
    topic_id: UUID
    replicas: Sequence[int] = ()
    isr: Sequence[int] = ()
    removing_replicas: Sequence[int] = ()
    adding_replicas: Sequence[int] = ()
    leader: int = -1
    leader_recovery_state: int = 0
    leader_epoch: int = -1
    partition_epoch: int = -1
    directories: Sequence[UUID] = ()
    eligible_leader_replicas: Sequence[int] | None = None
    last_known_elr: Sequence[int] | None = None
    high_watermark_floor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """Changes to a partition; None, LEADER_UNCHANGED and FLOOR_UNCHANGED mean no change.

    As in KRaft the leader epoch goes up by one with a new leader (-1: nobody), and the partition epoch with any change.
    `reason`, `timestamp_ms`: for its leader history. `is_in_use`: clients of the last leader will ask the new one.
    """

    partition_id: int
    topic_id: UUID
    isr: Sequence[int] | None = None
    leader: int = LEADER_UNCHANGED
    replicas: Sequence[int] | None = None
    removing_replicas: Sequence[int] | None = None
    adding_replicas: Sequence[int] | None = None
    leader_recovery_state: int = -1
    directories: Sequence[UUID] | None = None
    eligible_leader_replicas: Sequence[int] | None = None
    last_known_elr: Sequence[int] | None = None
    high_watermark_floor: int = FLOOR_UNCHANGED
    reason: str = ""
    timestamp_ms: int = NO_TIMESTAMP_MS
    is_in_use: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChangesRecord:
    """In snapshots: the leader history of one topic's partitions, stored as columns. Not one of KRaft's.

    `timestamps_ms`, `leaders`, `leader_epochs` and `reason_numbers` (indexes into `reasons`) have one entry per change:
    first `counts[0]` changes of `partitions[0]`, oldest first, then `counts[1]` of `partitions[1]`, and so on.
    """

    topic_id: UUID
    partitions: Sequence[int] = ()
    counts: Sequence[int] = ()
    timestamps_ms: Sequence[int] = ()
    leaders: Sequence[int] = ()
    leader_epochs: Sequence[int] = ()
    reason_numbers: Sequence[int] = ()
    reasons: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """One config of one resource; a value of None removes it. Resource types as in DescribeConfigs."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """A block of producer ids was given out; `next_producer_id` is the first that was not."""

    broker_id: int
    broker_epoch: int = -1
    next_producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """A feature's finalized level; 0 removes it."""

    name: str
    feature_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord:
    """Has no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransactionRecord:
    """The following records count only once the matching EndTransactionRecord exists (KIP-868)."""

    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRecord:
    """The records since BeginTransactionRecord count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactionRecord:
    """The records since BeginTransactionRecord do not count."""

    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    """A user's SCRAM keys for one mechanism (1 SHA-256, 2 SHA-512). They are secrets: `repr` leaves them out."""

    name: str
    mechanism: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord:
    """The user cannot log in by that mechanism any more."""

    name: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRecord:
    """A delegation token (KIP-48), again at each renewal. Owner, requester and renewers are TYPE:NAME."""

    owner: str
    requester: str
    renewers: Sequence[str]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDelegationTokenRecord:
    """The token was expired, or its time has passed."""

    token_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntity:
    """A part of a quota's entity: `user`, `client-id` or `ip`. Name None is the default of its type."""

    entity_type: str
    entity_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord:
    """One key of one entity's quotas; `remove` takes it away."""

    entity: Sequence[QuotaEntity]
    key: str
    value: float = 0.0
    remove: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord:
    """An ACL. The numbers are those of the ACL APIs."""

    id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord:
    """Takes away the ACL of that id."""

    id: UUID


MetadataRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | TopicRecord
    | RemoveTopicRecord
    | TopicFilesDeletedRecord
    | PartitionRecord
    | PartitionChangeRecord
    | StateChangesRecord
    | ConfigRecord
    | ProducerIdsRecord
    | FeatureLevelRecord
    | NoOpRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | DelegationTokenRecord
    | RemoveDelegationTokenRecord
    | ClientQuotaRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
)


def _array(name: str, kafka_type: str, since: int = 0) -> FormatField:
    return FormatField(name, kafka_type, since, is_array=True, default=())


def _tagged(name: str, kafka_type: str, tag: int, default: Any, since: int = 0) -> FormatField:
    return FormatField(
        name, kafka_type, since, nullable_since=since if default is None else None, tag=tag, default=default
    )


def _tagged_array(name: str, kafka_type: str, tag: int, default: Any = None, since: int = 0) -> FormatField:
    nullable_since = since if default is None else None
    return FormatField(name, kafka_type, since, is_array=True, nullable_since=nullable_since, tag=tag, default=default)


def _format(message_class: type, *fields: FormatField, version_max: int = 0) -> Format:
    return Format(message_class, version_max, flexible_from=0, fields=fields)


_ENDPOINT: Final = _format(
    BrokerEndpoint,
    FormatField("name", "string"),
    FormatField("host", "string"),
    FormatField("port", "uint16"),
    FormatField("security_protocol", "int16"),
    version_max=3,
)
_FEATURE: Final = _format(
    BrokerFeature,
    FormatField("name", "string"),
    FormatField("min_supported_version", "int16"),
    FormatField("max_supported_version", "int16"),
    version_max=3,
)

_QUOTA_ENTITY: Final = _format(
    QuotaEntity,
    FormatField("entity_type", "string"),
    FormatField("entity_name", "string", nullable_since=0),
)

_FORMATS: Final[dict[int, Format]] = {
    0: _format(
        RegisterBrokerRecord,
        FormatField("broker_id", "int32"),
        FormatField("is_migrating_zk_broker", "bool", since=2),
        FormatField("incarnation_id", "uuid"),
        FormatField("broker_epoch", "int64"),
        FormatField("end_points", None, entity=_ENDPOINT, is_array=True),
        FormatField("features", None, entity=_FEATURE, is_array=True),
        FormatField("rack", "string", nullable_since=0),
        FormatField("fenced", "bool"),
        FormatField("in_controlled_shutdown", "bool", since=1),
        _tagged_array("log_dirs", "uuid", 0, (), since=3),
        _tagged_array("roles", "string", OWN_TAGS_FROM, ()),
        version_max=3,
    ),
    1: _format(UnregisterBrokerRecord, FormatField("broker_id", "int32"), FormatField("broker_epoch", "int64")),
    2: _format(TopicRecord, FormatField("name", "string"), FormatField("topic_id", "uuid")),
    3: _format(
        PartitionRecord,
        FormatField("partition_id", "int32"),
        FormatField("topic_id", "uuid"),
        _array("replicas", "int32"),
        _array("isr", "int32"),
        _array("removing_replicas", "int32"),
        _array("adding_replicas", "int32"),
        FormatField("leader", "int32"),
        _tagged("leader_recovery_state", "int8", 0, 0),
        FormatField("leader_epoch", "int32"),
        FormatField("partition_epoch", "int32"),
        _array("directories", "uuid", since=1),
        _tagged_array("eligible_leader_replicas", "int32", 1, since=2),
        _tagged_array("last_known_elr", "int32", 2, since=2),
        _tagged("high_watermark_floor", "int64", OWN_TAGS_FROM, 0),
        version_max=2,
    ),
    4: _format(
        ConfigRecord,
        FormatField("resource_type", "int8"),
        FormatField("resource_name", "string"),
        FormatField("name", "string"),
        FormatField("value", "string", nullable_since=0),
    ),
    5: _format(
        PartitionChangeRecord,
        FormatField("partition_id", "int32"),
        FormatField("topic_id", "uuid"),
        _tagged_array("isr", "int32", 0),
        _tagged("leader", "int32", 1, LEADER_UNCHANGED),
        _tagged_array("replicas", "int32", 2),
        _tagged_array("removing_replicas", "int32", 3),
        _tagged_array("adding_replicas", "int32", 4),
        _tagged("leader_recovery_state", "int8", 5, -1),
        _tagged_array("eligible_leader_replicas", "int32", 6, since=2),
        _tagged_array("last_known_elr", "int32", 7, since=2),
        _tagged_array("directories", "uuid", 8, since=1),
        _tagged("high_watermark_floor", "int64", OWN_TAGS_FROM, FLOOR_UNCHANGED),
        _tagged("reason", "string", OWN_TAGS_FROM + 1, ""),
        _tagged("timestamp_ms", "int64", OWN_TAGS_FROM + 2, NO_TIMESTAMP_MS),
        _tagged("is_in_use", "bool", OWN_TAGS_FROM + 3, default=False),
        version_max=2,
    ),
    9: _format(RemoveTopicRecord, FormatField("topic_id", "uuid")),
    10: _format(
        DelegationTokenRecord,
        FormatField("owner", "string"),
        FormatField("requester", "string"),
        _array("renewers", "string"),
        FormatField("issue_timestamp", "int64"),
        FormatField("max_timestamp", "int64"),
        FormatField("expiration_timestamp", "int64"),
        FormatField("token_id", "string"),
    ),
    11: _format(
        UserScramCredentialRecord,
        FormatField("name", "string"),
        FormatField("mechanism", "int8"),
        FormatField("salt", "bytes"),
        FormatField("stored_key", "bytes"),
        FormatField("server_key", "bytes"),
        FormatField("iterations", "int32"),
    ),
    12: _format(FeatureLevelRecord, FormatField("name", "string"), FormatField("feature_level", "int16")),
    14: _format(
        ClientQuotaRecord,
        FormatField("entity", None, entity=_QUOTA_ENTITY, is_array=True),
        FormatField("key", "string"),
        FormatField("value", "float64"),
        FormatField("remove", "bool"),
    ),
    15: _format(
        ProducerIdsRecord,
        FormatField("broker_id", "int32"),
        FormatField("broker_epoch", "int64"),
        FormatField("next_producer_id", "int64"),
    ),
    17: _format(
        BrokerRegistrationChangeRecord,
        FormatField("broker_id", "int32"),
        FormatField("broker_epoch", "int64"),
        _tagged("fenced", "int8", 0, 0),
        _tagged("in_controlled_shutdown", "int8", 1, 0, since=1),
        _tagged_array("log_dirs", "uuid", 2, (), since=2),
        version_max=2,
    ),
    18: _format(
        AccessControlEntryRecord,
        FormatField("id", "uuid"),
        FormatField("resource_type", "int8"),
        FormatField("resource_name", "string"),
        FormatField("pattern_type", "int8"),
        FormatField("principal", "string"),
        FormatField("host", "string"),
        FormatField("operation", "int8"),
        FormatField("permission_type", "int8"),
    ),
    19: _format(RemoveAccessControlEntryRecord, FormatField("id", "uuid")),
    20: _format(NoOpRecord),
    22: _format(
        RemoveUserScramCredentialRecord,
        FormatField("name", "string"),
        FormatField("mechanism", "int8"),
    ),
    23: _format(BeginTransactionRecord, _tagged("name", "string", 0, None)),
    24: _format(EndTransactionRecord),
    25: _format(AbortTransactionRecord, _tagged("reason", "string", 0, None)),
    26: _format(RemoveDelegationTokenRecord, FormatField("token_id", "string")),
    OWN_API_KEYS_FROM: _format(TopicFilesDeletedRecord, FormatField("topic_id", "uuid")),
    OWN_API_KEYS_FROM + 1: _format(
        StateChangesRecord,
        FormatField("topic_id", "uuid"),
        _array("partitions", "int32"),
        _array("counts", "int32"),
        _array("timestamps_ms", "int64"),
        _array("leaders", "int32"),
        _array("leader_epochs", "int32"),
        _array("reason_numbers", "int32"),
        _array("reasons", "string"),
    ),
}
_API_KEYS: Final[dict[type, int]] = {entry.message_class: api_key for api_key, entry in _FORMATS.items()}


def encode_record(record: MetadataRecord, version: int | None = None) -> bytes:
    """The value of a metadata-log record; in the newest version unless told otherwise."""
    api_key = _API_KEYS[type(record)]
    format_ = _FORMATS[api_key]
    if version is None:
        version = format_.version_max
    out = bytearray((FRAME_VERSION,)) + unsigned_varint(api_key) + unsigned_varint(version)
    codec_of(format_, version).write(out, record)
    return bytes(out)


def decode_record(data: Buffer) -> MetadataRecord:
    """Decode a record. Raises MalformedMessage, and UnsupportedVersion for a record this server is too old for.

    An unknown record is refused, not skipped: a controller that ignores part of the past would decide wrongly.
    """
    try:
        frame_version, position = read_unsigned_varint(data, 0)
        api_key, position = read_unsigned_varint(data, position)
        version, position = read_unsigned_varint(data, position)
    except IndexError as error:
        raise MalformedMessage(f"a metadata record of {len(data)} bytes has no header") from error
    if frame_version != FRAME_VERSION:
        raise UnsupportedVersion(f"metadata record frame version {frame_version}, {FRAME_VERSION} is known")
    format_ = _FORMATS.get(api_key)
    if format_ is None or version > format_.version_max:
        raise UnsupportedVersion(f"metadata record {api_key} version {version} is not known to this server")
    record: MetadataRecord = codec_of(format_, version).read(data, position)
    return record
