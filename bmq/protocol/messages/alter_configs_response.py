"""AlterConfigsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterConfigsResourceResponse:
    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterConfigsResponse:
    throttle_time_ms: int = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()


_ALTER_CONFIGS_RESOURCE_RESPONSE: Final = Format(
    AlterConfigsResourceResponse,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("resource_type", "int8"),
        FormatField("resource_name", "string"),
    ),
)
FORMAT: Final = Format(
    AlterConfigsResponse,
    version_min=0,
    version_max=2,
    flexible_from=2,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("responses", entity=_ALTER_CONFIGS_RESOURCE_RESPONSE, is_array=True),
    ),
)
