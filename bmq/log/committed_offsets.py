"""The port from a partition's owner to the coordinators of consumer groups: which offsets they have committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID


class CommittedOffsets(Protocol):
    """Implemented over the coordinators' own OffsetFetch, wherever they are."""

    async def committed(
        self, group_ids: Sequence[str], topic_id: UUID, partitions: Sequence[int]
    ) -> Mapping[int, Mapping[str, int]]:
        """By partition, then by group: its committed offset, or -1 when it has none.

        The offsets are those of some moment after the call. Groups whose coordinators do not answer are left out; nothing is
        raised for them.
        """
