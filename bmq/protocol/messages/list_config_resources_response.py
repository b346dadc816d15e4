"""ListConfigResourcesResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ConfigResource(Message):
    """A part of ListConfigResourcesResponse."""

    resource_name: str
    resource_type: int

    def __init__(
        self,
        *,
        resource_name: str = "",
        resource_type: int = 16,
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListConfigResourcesResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    config_resources: Sequence[ConfigResource]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: Sequence[ConfigResource] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = config_resources


_CONFIG_RESOURCE: Final = Format(
    ConfigResource,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("resource_name", "string"),
        FormatField("resource_type", "int8", since=1),
    ),
)
FORMAT: Final = Format(
    ListConfigResourcesResponse,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("config_resources", entity=_CONFIG_RESOURCE, is_array=True),
    ),
)
