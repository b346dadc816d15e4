"""EnvelopeRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class EnvelopeRequest(Message):
    """The message."""

    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes
    leader_epoch: int
    connection_age_ms: int

    def __init__(
        self,
        *,
        request_data: bytes = b"",
        request_principal: bytes | None = None,
        client_host_address: bytes = b"",
        leader_epoch: int = -1,
        connection_age_ms: int = -1,
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address
        self.leader_epoch = leader_epoch
        self.connection_age_ms = connection_age_ms


FORMAT: Final = Format(
    EnvelopeRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("request_data", "bytes"),
        FormatField("request_principal", "bytes", nullable_since=0),
        FormatField("client_host_address", "bytes"),
        FormatField("leader_epoch", "int32", tag=10000, default=-1),
        FormatField("connection_age_ms", "int64", tag=10001, default=-1),
    ),
)
