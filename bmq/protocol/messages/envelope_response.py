"""EnvelopeResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class EnvelopeResponse:
    response_data: bytes | None = None
    error_code: int = 0


FORMAT: Final = Format(
    EnvelopeResponse,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("response_data", "bytes", nullable_since=0),
        FormatField("error_code", "int16"),
    ),
)
