"""ApiVersionsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses


@dataclasses.dataclass(slots=True, kw_only=True)
class ApiVersionsRequest:
    client_software_name: str = ""
    client_software_version: str = ""
    cluster_id: str | None = None
    node_id: int = -1
