"""The services for handlers of the internal listener: only those of this process. Nothing here forwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol, Self

from bmq.controller.runtime import Controller
from bmq.dataclass import dataclass
from bmq.election.election import MetadataMark
from bmq.internode_server.tail_sessions import TailSessions
from bmq.membership.known_controller import KnownController
from bmq.metadata.image import MetadataImage
from bmq.protocol.internal_messages import ReleasePartitionsRequest, ReleasePartitionsResponse
from bmq.proxy.access import OPEN, Access
from bmq.proxy.services import RequestHandler, Services

if TYPE_CHECKING:
    from bmq.broker.manager import PartitionManager


class Leadership(Protocol):
    """Whether the active controller is in this process."""

    @property
    def active(self) -> Controller | None: ...

    @property
    def epoch(self) -> int:
        """The epoch of the active controller here; -1 without one."""


class Releases(Protocol):
    """Hands partitions over to a new owner in order (rule 8)."""

    async def release(self, request: ReleasePartitionsRequest, image: MetadataImage) -> ReleasePartitionsResponse: ...


async def _never(controller_epoch: int) -> bool:
    return False


@dataclass(slots=True, kw_only=True)
class InternalServices(Services):
    """`partitions`, `groups` and `controller` of Services are this process's own here.

    `hears_controller(epoch)`: whether the controller of that epoch answers this node now. `client_access`: the rights of clients whose requests come in envelopes. `access` is for requests of nodes themselves.
    """

    leadership: Leadership
    manager: PartitionManager
    releases: Releases
    known: KnownController
    metadata_seen: Callable[[], MetadataMark] = lambda: MetadataMark(-1, -1)
    hears_controller: Callable[[int], Awaitable[bool]] = _never
    tails: TailSessions = field(default_factory=TailSessions)
    share_calls: RequestHandler | None = None
    is_between_nodes: bool = True
    client_access: Access = OPEN
    _of_clients: Self | None = field(default=None, init=False, repr=False)

    def of_clients(self) -> Self:
        """The same for the request of a client, whose rights are looked at."""
        if not self.client_access.is_on:
            return self
        if self._of_clients is None:
            self._of_clients = replace(self, access=self.client_access)
        return self._of_clients


def internal(services: Services) -> InternalServices:
    """Cast: a handler on the internal listener is always given InternalServices."""
    assert isinstance(services, InternalServices)
    return services
