"""Committed offsets of consumer groups that a test chooses, and whether their coordinators answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID


class FakeCommittedOffsets:
    """Implements bmq.log.committed_offsets.CommittedOffsets. The offsets are the same for every partition."""

    def __init__(self, **offsets: int) -> None:
        self.offsets = offsets
        self.silent: set[str] = set()
        self.fails_with: Exception | None = None
        self.asked: list[tuple[tuple[str, ...], tuple[int, ...]]] = []

    async def committed(
        self, group_ids: Sequence[str], topic_id: UUID, partitions: Sequence[int]
    ) -> Mapping[int, Mapping[str, int]]:
        self.asked.append((tuple(group_ids), tuple(partitions)))
        if self.fails_with is not None:
            raise self.fails_with
        known = {group_id: self.offsets.get(group_id, -1) for group_id in group_ids if group_id not in self.silent}
        return dict.fromkeys(partitions, known)
