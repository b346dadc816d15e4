"""IncrementalAlterConfigsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterConfigsResourceResponse(Message):
    """A part of IncrementalAlterConfigsResponse."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class IncrementalAlterConfigsResponse(Message):
    """The message."""

    throttle_time_ms: int
    responses: Sequence[AlterConfigsResourceResponse]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: Sequence[AlterConfigsResourceResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses


_ALTER_CONFIGS_RESOURCE_RESPONSE: Final = Format(
    AlterConfigsResourceResponse,
    version_min=0,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("resource_type", "int8"),
        FormatField("resource_name", "string"),
    ),
)
FORMAT: Final = Format(
    IncrementalAlterConfigsResponse,
    version_min=0,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("responses", entity=_ALTER_CONFIGS_RESOURCE_RESPONSE, is_array=True),
    ),
)
