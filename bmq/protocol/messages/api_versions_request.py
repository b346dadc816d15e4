"""ApiVersionsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ApiVersionsRequest(Message):
    """The message."""

    client_software_name: str
    client_software_version: str
    cluster_id: str | None
    node_id: int

    def __init__(
        self,
        *,
        client_software_name: str = "",
        client_software_version: str = "",
        cluster_id: str | None = None,
        node_id: int = -1,
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
        self.cluster_id = cluster_id
        self.node_id = node_id


FORMAT: Final = Format(
    ApiVersionsRequest,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("client_software_name", "string", since=3),
        FormatField("client_software_version", "string", since=3),
        FormatField("cluster_id", "string", since=5, nullable_since=0),
        FormatField("node_id", "int32", since=5),
    ),
)
