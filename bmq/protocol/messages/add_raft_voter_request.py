"""AddRaftVoterRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Listener(Message):
    """A part of AddRaftVoterRequest."""

    name: str
    host: str
    port: int

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AddRaftVoterRequest(Message):
    """The message."""

    cluster_id: str | None
    timeout_ms: int
    voter_id: int
    voter_directory_id: UUID | None
    listeners: Sequence[Listener]
    ack_when_committed: bool

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: UUID | None = None,
        listeners: Sequence[Listener] = (),
        ack_when_committed: bool = True,
    ) -> None:
        self.cluster_id = cluster_id
        self.timeout_ms = timeout_ms
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = listeners
        self.ack_when_committed = ack_when_committed


_LISTENER: Final = Format(
    Listener,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("host", "string"),
        FormatField("port", "uint16"),
    ),
)
FORMAT: Final = Format(
    AddRaftVoterRequest,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("cluster_id", "string", nullable_since=0),
        FormatField("timeout_ms", "int32"),
        FormatField("voter_id", "int32"),
        FormatField("voter_directory_id", "uuid"),
        FormatField("listeners", entity=_LISTENER, is_array=True),
        FormatField("ack_when_committed", "bool", since=1),
    ),
)
