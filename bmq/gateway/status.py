"""Which status code of gRPC each error of Kafka and of librdkafka becomes. Pure.

docs/GATEWAY.md has the same table; a test compares them. What is not listed becomes UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bmq.gateway.failure import GatewayFailed
from bmq.protocol.error_codes import ErrorCode

STATUS_NUMBERS: Final[Mapping[str, int]] = {
    "OK": 0,
    "CANCELLED": 1,
    "UNKNOWN": 2,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "OUT_OF_RANGE": 11,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "DATA_LOSS": 15,
    "UNAUTHENTICATED": 16,
}
"""Numbers of the status codes (gRPC's statuscodes.md)."""

KAFKA_ERRORS: Final[Mapping[str, tuple[str, ...]]] = {
    "INVALID_ARGUMENT": (
        "MESSAGE_TOO_LARGE",
        "INVALID_TOPIC_EXCEPTION",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_GROUP_ID",
        "INVALID_TIMESTAMP",
        "INVALID_PARTITIONS",
        "INVALID_REPLICATION_FACTOR",
        "INVALID_REPLICA_ASSIGNMENT",
        "INVALID_CONFIG",
        "INVALID_REQUEST",
        "INVALID_RECORD",
        "UNKNOWN_MEMBER_ID",
    ),
    "NOT_FOUND": ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "GROUP_ID_NOT_FOUND"),
    "ALREADY_EXISTS": ("TOPIC_ALREADY_EXISTS",),
    "PERMISSION_DENIED": (
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
    "UNAUTHENTICATED": ("UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE", "SASL_AUTHENTICATION_FAILED"),
    "RESOURCE_EXHAUSTED": ("GROUP_MAX_SIZE_REACHED", "THROTTLING_QUOTA_EXCEEDED", "SHARE_SESSION_LIMIT_REACHED"),
    "FAILED_PRECONDITION": (
        "POLICY_VIOLATION",
        "INCONSISTENT_GROUP_PROTOCOL",
        "NON_EMPTY_GROUP",
        "TOPIC_DELETION_DISABLED",
        "INVALID_RECORD_STATE",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    ),
    "ABORTED": ("ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"),
    "OUT_OF_RANGE": ("OFFSET_OUT_OF_RANGE",),
    "UNIMPLEMENTED": ("UNSUPPORTED_VERSION",),
    "DEADLINE_EXCEEDED": ("REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
    "DATA_LOSS": ("CORRUPT_MESSAGE",),
    "UNAVAILABLE": (
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "BROKER_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "NOT_ENOUGH_REPLICAS",
        "NOT_CONTROLLER",
        "KAFKA_STORAGE_ERROR",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
    ),
}
"""Names of Kafka's errors by the status code that they become."""

LIBRARY_ERRORS: Final[Mapping[str, tuple[str, ...]]] = {
    "INVALID_ARGUMENT": ("_INVALID_ARG",),
    "NOT_FOUND": ("_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "_UNKNOWN_GROUP"),
    "UNAUTHENTICATED": ("_AUTHENTICATION",),
    "RESOURCE_EXHAUSTED": ("_QUEUE_FULL",),
    "DEADLINE_EXCEEDED": ("_TIMED_OUT", "_MSG_TIMED_OUT", "_TIMED_OUT_QUEUE"),
    "OUT_OF_RANGE": ("_AUTO_OFFSET_RESET",),
    "UNIMPLEMENTED": ("_UNSUPPORTED_FEATURE",),
    "UNAVAILABLE": ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_SSL", "_WAIT_COORD", "_DESTROY", "_PURGE_QUEUE"),
    "ABORTED": ("_FENCED", "_MAX_POLL_EXCEEDED"),
}
"""Names of librdkafka's own errors by the status code that they become."""

_STATUS_OF: Final = {
    name: status for table in (KAFKA_ERRORS, LIBRARY_ERRORS) for status, names in table.items() for name in names
}


def status_of(name: str) -> str:
    """The name of the status code for the name of an error: of Kafka, or with an underscore of librdkafka."""
    return _STATUS_OF.get(name, "UNKNOWN")


def kafka_failure(what: str, code: ErrorCode, message: str | None = None) -> GatewayFailed:
    """A failure by Kafka's code. `what`: what failed. `message`: the server's, if it sent one."""
    return GatewayFailed(status_of(code.name), f"{what}: {message or code.name}", code.name)


def library_failure(what: str, code: int, name: str, message: str) -> GatewayFailed:
    """A failure by librdkafka's error: below zero its own, by its `name`, otherwise Kafka's code."""
    known = ErrorCode(code).name if code >= 0 and code in ErrorCode._value2member_map_ else name
    return GatewayFailed(status_of(known), f"{what}: {message or known}", known)
