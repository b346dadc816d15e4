"""DeleteGroupsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class DeleteGroupsRequest:
    groups_names: Sequence[str] = ()
