"""BrokerRegistrationRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class Listener:
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class Feature:
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class BrokerRegistrationRequest:
    broker_id: int = 0
    cluster_id: str = ""
    incarnation_id: UUID | None = None
    listeners: Sequence[Listener] = ()
    features: Sequence[Feature] = ()
    rack: str | None = None
    is_migrating_zk_broker: bool = False
    log_dirs: Sequence[UUID] = ()
    previous_broker_epoch: int = -1
    roles: Sequence[str] = ()


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
