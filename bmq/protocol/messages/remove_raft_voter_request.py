"""RemoveRaftVoterRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class RemoveRaftVoterRequest(Message):
    """The message."""

    cluster_id: str | None
    voter_id: int
    voter_directory_id: UUID | None

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        voter_id: int = 0,
        voter_directory_id: UUID | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


FORMAT: Final = Format(
    RemoveRaftVoterRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("cluster_id", "string", nullable_since=0),
        FormatField("voter_id", "int32"),
        FormatField("voter_directory_id", "uuid"),
    ),
)
