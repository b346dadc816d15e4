"""AlterConfigsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


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
