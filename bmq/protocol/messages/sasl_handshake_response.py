"""SaslHandshakeResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import NEWEST, Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class SaslHandshakeResponse(Message):
    """The message."""

    error_code: int
    mechanisms: Sequence[str]

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: Sequence[str] = (),
    ) -> None:
        self.error_code = error_code
        self.mechanisms = mechanisms


FORMAT: Final = Format(
    SaslHandshakeResponse,
    version_min=0,
    version_max=1,
    flexible_from=NEWEST,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("mechanisms", "string", is_array=True),
    ),
)
