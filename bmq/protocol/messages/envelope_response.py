"""EnvelopeResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class EnvelopeResponse(Message):
    """The message."""

    response_data: bytes | None
    error_code: int

    def __init__(
        self,
        *,
        response_data: bytes | None = None,
        error_code: int = 0,
    ) -> None:
        self.response_data = response_data
        self.error_code = error_code


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
