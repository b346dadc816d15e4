"""The ACLs of a cluster as the metadata log changes them, and what changed between two images. Decisions only.

There may be 100,000 of them: comparing two images costs a tenth of a second, which no other client may wait for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

from bmq.security.acls import Acl

CHANGES_MAX: Final = 20_000
"""Changes that are remembered: two requests of the greatest length. What is further behind is compared."""

AclChange = tuple[UUID, Acl | None]
"""None: it is removed."""


class AclSnapshot(dict[UUID, Acl]):
    """The ACLs of one image, by their ids; never changed."""

    __slots__ = ("journal", "number")

    def __init__(self, journal: AclJournal, number: int, acls: Mapping[UUID, Acl]) -> None:
        super().__init__(acls)
        self.journal = journal
        self.number = number

    def since(self, earlier: Mapping[UUID, Acl] | None) -> Sequence[AclChange] | None:
        """What changed from an earlier image to this one, in order; None: that is not known any more."""
        if not isinstance(earlier, AclSnapshot) or earlier.journal is not self.journal:
            return None
        return self.journal.between(earlier.number, self.number)


class AclJournal:
    """`acls`: those of now."""

    def __init__(self) -> None:
        self.acls: dict[UUID, Acl] = {}
        self._changes: deque[AclChange] = deque(maxlen=CHANGES_MAX)
        self._number = 0  # of all changes ever made
        self._snapshot = AclSnapshot(self, 0, {})

    def put(self, acl_id: UUID, acl: Acl) -> None:
        self.acls[acl_id] = acl
        self._note(acl_id, acl)

    def remove(self, acl_id: UUID) -> bool:
        """Whether it was there."""
        if self.acls.pop(acl_id, None) is None:
            return False
        self._note(acl_id, None)
        return True

    def snapshot(self) -> AclSnapshot:
        """For an image; the same object while nothing changes."""
        if self._snapshot.number != self._number:
            self._snapshot = AclSnapshot(self, self._number, self.acls)
        return self._snapshot

    def between(self, earlier: int, later: int) -> Sequence[AclChange] | None:
        """The changes behind the first of two numbers, up to the second; None: they are forgotten."""
        first = self._number - len(self._changes)
        if not first <= earlier <= later:
            return None
        return list(islice(self._changes, earlier - first, later - first))

    def _note(self, acl_id: UUID, acl: Acl | None) -> None:
        self._changes.append((acl_id, acl))
        self._number += 1
