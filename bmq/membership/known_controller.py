"""The active controller as this node knows it: from the election, or, while that is unreachable, from another node."""

from __future__ import annotations

from collections.abc import Callable

from bmq.election.election import ControllerClaim
from bmq.metadata.image import MetadataImage


class KnownController:
    """`elected()`: the election's newest claim. A higher epoch is believed from any source (rule 17)."""

    def __init__(self, elected: Callable[[], ControllerClaim | None], image: Callable[[], MetadataImage]) -> None:
        self._elected = elected
        self._image = image
        self._reported: ControllerClaim | None = None

    @property
    def claim(self) -> ControllerClaim | None:
        elected, reported = self._elected(), self._reported
        if reported is None or (elected is not None and elected.epoch >= reported.epoch):
            return elected
        return reported

    def learn(self, node_id: int, epoch: int) -> bool:
        """Another node names the active controller; whether that is news."""
        known = self.claim
        node = self._image().nodes.get(node_id)
        if node is None or node.internal is None or (known is not None and known.epoch >= epoch):
            return False
        self._reported = ControllerClaim(node_id, *node.internal, epoch)
        return True
