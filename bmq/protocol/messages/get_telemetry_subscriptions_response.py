"""GetTelemetrySubscriptionsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    client_instance_id: UUID | None = None
    subscription_id: int = 0
    accepted_compression_types: Sequence[int] = ()
    push_interval_ms: int = 0
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: Sequence[str] = ()


FORMAT: Final = Format(
    GetTelemetrySubscriptionsResponse,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("client_instance_id", "uuid"),
        FormatField("subscription_id", "int32"),
        FormatField("accepted_compression_types", "int8", is_array=True),
        FormatField("push_interval_ms", "int32"),
        FormatField("telemetry_max_bytes", "int32"),
        FormatField("delta_temporality", "bool"),
        FormatField("requested_metrics", "string", is_array=True),
    ),
)
