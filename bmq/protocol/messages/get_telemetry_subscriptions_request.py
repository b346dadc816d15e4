"""GetTelemetrySubscriptionsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class GetTelemetrySubscriptionsRequest(Message):
    """The message."""

    client_instance_id: UUID | None

    def __init__(
        self,
        *,
        client_instance_id: UUID | None = None,
    ) -> None:
        self.client_instance_id = client_instance_id


FORMAT: Final = Format(
    GetTelemetrySubscriptionsRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(FormatField("client_instance_id", "uuid"),),
)
