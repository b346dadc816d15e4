"""SaslHandshakeRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import NEWEST, Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class SaslHandshakeRequest(Message):
    """The message."""

    mechanism: str

    def __init__(
        self,
        *,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism


FORMAT: Final = Format(
    SaslHandshakeRequest,
    version_min=0,
    version_max=1,
    flexible_from=NEWEST,
    fields=(FormatField("mechanism", "string"),),
)
