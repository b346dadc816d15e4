"""DescribeClusterResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeClusterBroker(Message):
    """A part of DescribeClusterResponse."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool

    def __init__(
        self,
        *,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeClusterResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    endpoint_type: int
    cluster_id: str
    controller_id: int
    brokers: Sequence[DescribeClusterBroker]
    cluster_authorized_operations: int

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: Sequence[DescribeClusterBroker] = (),
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = brokers
        self.cluster_authorized_operations = cluster_authorized_operations


_DESCRIBE_CLUSTER_BROKER: Final = Format(
    DescribeClusterBroker,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("broker_id", "int32"),
        FormatField("host", "string"),
        FormatField("port", "int32"),
        FormatField("rack", "string", nullable_since=0),
        FormatField("is_fenced", "bool", since=2),
    ),
)
FORMAT: Final = Format(
    DescribeClusterResponse,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("endpoint_type", "int8", since=1),
        FormatField("cluster_id", "string"),
        FormatField("controller_id", "int32"),
        FormatField("brokers", entity=_DESCRIBE_CLUSTER_BROKER, is_array=True),
        FormatField("cluster_authorized_operations", "int32"),
    ),
)
