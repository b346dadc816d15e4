"""Live nodes and the active controller: a port that ZooKeeper implements, and a fake in tests.

All methods are called on the event loop. Losing the service stops elections, never traffic: the last known leader and
members remain visible, and sessions are re-established when it is back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bmq.protocol.errors import BmqError


class ElectionError(BmqError):
    """Base of an election's errors; each message is a sentence that says what to do."""


class ElectionUnavailable(ElectionError):
    """The service does not answer now."""


class ForeignElection(ElectionError):
    """The root belongs to another cluster."""


class DuplicateNode(ElectionError):
    """Another live process has this node id."""


@dataclass(frozen=True, slots=True)
class ControllerClaim:
    """The active controller, reached at `host`, `port` (its internal listener). `epoch` comes from a persistent counter."""

    node_id: int
    host: str
    port: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Member:
    """A process that the service considers alive. `incarnation`: unique for every start of a process."""

    node_id: int
    incarnation: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, order=True)
class MetadataMark:
    """Everything below `offset` of the metadata log was durable under the controller of `epoch`. -1: unknown."""

    epoch: int
    offset: int


class Election(Protocol):
    """One process's session."""

    async def start(self, cluster_id: str) -> None:
        """Connect, and bind the root to this cluster. Raises ElectionUnavailable, ForeignElection."""

    async def join(self, member: Member) -> None:
        """Be visible as alive until `close` or death, over lost sessions too. Raises DuplicateNode,
        ElectionUnavailable.

        The entry of an earlier, dead process of this node may take a session timeout to expire; this waits for it.
        """

    @property
    def leader(self) -> ControllerClaim | None:
        """The newest claim seen that was not given up; kept while the service is away."""

    def on_leader(self, changed: Callable[[ControllerClaim | None], None]) -> None:
        """Call `changed` shortly after every change of `leader`."""

    @property
    def members(self) -> Mapping[int, Member]:
        """Live processes by node id; the last known ones while the service is away."""

    def on_members(self, changed: Callable[[Mapping[int, Member]], None]) -> None: ...

    async def campaign(self, member: Member) -> ControllerClaim:
        """Wait until nobody leads, take the leadership under an epoch never used before, and return it. Cancellable."""

    def on_lost(self, claim: ControllerClaim, lost: Callable[[], None]) -> None:
        """Call `lost` once the claim is known to be gone (session expired, deposed), not while it is only in doubt."""

    async def resign(self, claim: ControllerClaim) -> None:
        """Give the leadership up if it is still ours."""

    async def depose(self, claim: ControllerClaim) -> None:
        """End the leadership of a controller that seems dead, if it still has this claim. A wrong guess is harmless:
        the next controller has a higher epoch (rule 17)."""

    async def raise_epoch(self, minimum: int) -> int:
        """Raise the epoch counter to at least this, after the service lost its data; the new value."""

    async def metadata_mark(self) -> MetadataMark | None:
        """The highest mark any controller has left; None: there is none. Raises ElectionUnavailable."""

    async def raise_metadata_mark(self, mark: MetadataMark) -> None:
        """Store this mark unless a higher one exists, by epoch and then by offset. Raises ElectionUnavailable."""

    async def close(self) -> None: ...
