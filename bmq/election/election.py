"""Who is alive and who is the active controller: the port that ZooKeeper implements, and a fake in tests.

All methods are called on the event loop. Losing the service behind it stops elections, never traffic: the last known
leader and members remain visible, and sessions are re-established when it is back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bmq.protocol.errors import BmqError


class ElectionError(BmqError):
    """Base of what an election raises, each one a sentence that says what to do."""


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
    """A process that is alive as far as the service knows. `incarnation`: unique for every start of a process."""

    node_id: int
    incarnation: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, order=True)
class MetadataMark:
    """Everything below `offset` of the metadata log was durable under the controller of `epoch`. -1: nothing is known."""

    epoch: int
    offset: int


class Election(Protocol):
    """One process's session."""

    async def start(self, cluster_id: str) -> None:
        """Connect, and bind the root to this cluster. Raises ElectionUnavailable, ForeignElection."""

    async def join(self, member: Member) -> None:
        """Be seen as alive until `close` or death; kept up over lost sessions. Raises DuplicateNode, ElectionUnavailable.

        The entry of an earlier, dead process of this node may take a session timeout to expire; this waits for it.
        """

    @property
    def leader(self) -> ControllerClaim | None:
        """The newest claim that was seen and not given up; also while the service is away."""

    def on_leader(self, changed: Callable[[ControllerClaim | None], None]) -> None:
        """Call at every change of `leader`, a moment after it."""

    @property
    def members(self) -> Mapping[int, Member]:
        """By node id; the last known while the service is away."""

    def on_members(self, changed: Callable[[Mapping[int, Member]], None]) -> None: ...

    async def campaign(self, member: Member) -> ControllerClaim:
        """Wait until nobody leads, take the leadership under an epoch never used before, and return it. Cancellable."""

    def on_lost(self, claim: ControllerClaim, lost: Callable[[], None]) -> None:
        """Call once when the claim is known to be gone (session expired, deposed). Not called while it is only doubtful."""

    async def resign(self, claim: ControllerClaim) -> None:
        """Give the leadership up if it is still ours."""

    async def depose(self, claim: ControllerClaim) -> None:
        """Take the leadership from a controller that is thought dead, if it is still this claim. A wrong guess does no harm:
        the next one has a higher epoch (rule 17)."""

    async def raise_epoch(self, minimum: int) -> int:
        """Make the counter at least this, after the service lost its data; the counter now."""

    async def metadata_mark(self) -> MetadataMark | None:
        """The highest mark a controller has left; None: none has. Raises ElectionUnavailable."""

    async def raise_metadata_mark(self, mark: MetadataMark) -> None:
        """Leave this one unless there is a higher one, by epoch and then by offset. Raises ElectionUnavailable."""

    async def close(self) -> None: ...
