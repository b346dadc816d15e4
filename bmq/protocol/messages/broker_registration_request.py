"""BrokerRegistrationRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Listener(Message):
    """A part of BrokerRegistrationRequest."""

    name: str
    host: str
    port: int
    security_protocol: int

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Feature(Message):
    """A part of BrokerRegistrationRequest."""

    name: str
    min_supported_version: int
    max_supported_version: int

    def __init__(
        self,
        *,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class BrokerRegistrationRequest(Message):
    """The message."""

    broker_id: int
    cluster_id: str
    incarnation_id: UUID | None
    listeners: Sequence[Listener]
    features: Sequence[Feature]
    rack: str | None
    is_migrating_zk_broker: bool
    log_dirs: Sequence[UUID]
    previous_broker_epoch: int
    roles: Sequence[str]

    def __init__(
        self,
        *,
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: UUID | None = None,
        listeners: Sequence[Listener] = (),
        features: Sequence[Feature] = (),
        rack: str | None = None,
        is_migrating_zk_broker: bool = False,
        log_dirs: Sequence[UUID] = (),
        previous_broker_epoch: int = -1,
        roles: Sequence[str] = (),
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners = listeners
        self.features = features
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs = log_dirs
        self.previous_broker_epoch = previous_broker_epoch
        self.roles = roles


_LISTENER: Final = Format(
    Listener,
    version_min=4,
    version_max=4,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("host", "string"),
        FormatField("port", "uint16"),
        FormatField("security_protocol", "int16"),
    ),
)
_FEATURE: Final = Format(
    Feature,
    version_min=4,
    version_max=4,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("min_supported_version", "int16"),
        FormatField("max_supported_version", "int16"),
    ),
)
FORMAT: Final = Format(
    BrokerRegistrationRequest,
    version_min=4,
    version_max=4,
    flexible_from=0,
    fields=(
        FormatField("broker_id", "int32"),
        FormatField("cluster_id", "string"),
        FormatField("incarnation_id", "uuid"),
        FormatField("listeners", entity=_LISTENER, is_array=True),
        FormatField("features", entity=_FEATURE, is_array=True),
        FormatField("rack", "string", nullable_since=0),
        FormatField("is_migrating_zk_broker", "bool"),
        FormatField("log_dirs", "uuid", is_array=True),
        FormatField("previous_broker_epoch", "int64"),
        FormatField("roles", "string", is_array=True, tag=10000, default=()),
    ),
)
