"""The port from a partition's owner to the coordinators of consumer groups, for their committed offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID


class CommittedOffsets(Protocol):
    """Asks groups' coordinators, wherever they are, as OffsetFetch does."""

    async def committed(
        self, group_ids: Sequence[str], topic_id: UUID, partitions: Sequence[int]
    ) -> Mapping[int, Mapping[str, int]]:
        """Committed offsets by partition and group; -1 for a group that has committed none.

        The offsets are those of some moment after the call. Groups whose coordinators do not answer are missing; that raises no
        error.
        """
