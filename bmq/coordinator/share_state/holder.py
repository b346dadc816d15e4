"""The holder of a lock: a member's share session at an incarnation of a proxy. Decisions only."""

from __future__ import annotations

from typing import Final
from weakref import WeakValueDictionary


class Holder:
    """See the module. Made by `holder_of` alone, so two are equal only if they are the same object."""

    __slots__ = ("__weakref__", "member_id", "node_epoch", "node_id", "session")

    def __init__(self, member_id: str, node_id: int, node_epoch: int, session: int) -> None:
        self.member_id = member_id
        self.node_id = node_id
        self.node_epoch = node_epoch
        self.session = session


_HOLDERS: Final[WeakValueDictionary[tuple[str, int, int, int], Holder]] = WeakValueDictionary()


def holder_of(member_id: str, node_id: int, node_epoch: int, session: int) -> Holder:
    """The same object for the same values while anything refers to it: a lock has a reference, and not a copy."""
    key = member_id, node_id, node_epoch, session
    found = _HOLDERS.get(key)
    if found is None:
        found = _HOLDERS[key] = Holder(*key)
    return found
