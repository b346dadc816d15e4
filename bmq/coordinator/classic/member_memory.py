"""Memory that members of classic groups take outside of the log: names, subscriptions, member ids given out.

A JoinGroup is kept before anything of it is durable, for as long as its session may last, so its bytes are counted: for
each shard, and for all shards of the process. Groups of the newer protocols keep nothing that is not in the log.
"""

from __future__ import annotations

from typing import Final

GROUP_BYTES: Final = 1_000
"""Memory of a group besides names and members, about."""


class MemberMemory:
    """All shards of one process."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0


class ShardMemory:
    """The classic groups of one shard."""

    def __init__(self, process: MemberMemory, bytes_max: int) -> None:
        self._process = process
        self._bytes_max = bytes_max
        self._by_group: dict[str, int] = {}
        self.held_bytes = 0

    def has_room(self, added_bytes: int) -> bool:
        """Whether members may take that much more memory. Taking no more than before is always allowed."""
        return added_bytes <= 0 or (
            self.held_bytes + added_bytes <= self._bytes_max
            and self._process.held_bytes + added_bytes <= self._process.bytes_max
        )

    def of_group(self, group_id: str) -> int:
        return self._by_group.get(group_id, 0)

    def holds(self, group_id: str, members_bytes: int) -> None:
        """The group's members take that much memory now."""
        size_bytes = members_bytes + len(group_id) + GROUP_BYTES
        grown_bytes = size_bytes - self._by_group.get(group_id, 0)
        self._by_group[group_id] = size_bytes
        self._add(grown_bytes)

    def forget(self, group_id: str) -> None:
        """The group is gone."""
        self._add(-self._by_group.pop(group_id, 0))

    def clear(self) -> None:
        """The shard is gone."""
        self._by_group.clear()
        self._add(-self.held_bytes)

    def _add(self, size_bytes: int) -> None:
        self.held_bytes += size_bytes
        self._process.held_bytes += size_bytes
