"""GetTelemetrySubscriptionsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class GetTelemetrySubscriptionsRequest:
    client_instance_id: UUID | None = None


FORMAT: Final = Format(
    GetTelemetrySubscriptionsRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(FormatField("client_instance_id", "uuid"),),
)
