"""UnregisterBrokerRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class UnregisterBrokerRequest:
    broker_id: int = 0


FORMAT: Final = Format(
    UnregisterBrokerRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(FormatField("broker_id", "int32"),),
)
