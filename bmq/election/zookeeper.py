"""The election in ZooKeeper: implements bmq.election.election.Election over kazoo.

While ZooKeeper is away the last known leader and members remain visible. When it is back the root and this process's
entry are checked and all watches set again, whether the session survived or not. One task, the keeper, does that. It
calls zookeeper_leadership.py and zookeeper_members.py; zookeeper_session.py keeps kazoo's threads off the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import structlog
from kazoo.exceptions import (
    AuthFailedError,
    InvalidACLError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SessionClosedRequireSaslError,
    ZookeeperError,
)
from kazoo.security import CREATOR_ALL_ACL

from bmq.election.election import (
    ControllerClaim,
    ElectionUnavailable,
    ForeignElection,
    Member,
    MetadataMark,
)
from bmq.election.zookeeper_address import ZooKeeperAddress
from bmq.election.zookeeper_layout import Layout
from bmq.election.zookeeper_leadership import ZooKeeperLeadership
from bmq.election.zookeeper_members import ZooKeeperMembers
from bmq.election.zookeeper_security import OPEN, NodeAccess, ZooKeeperSecurity
from bmq.election.zookeeper_session import Interrupted, SessionClosed, ZooKeeperSession
from bmq.election.zookeeper_wire import SessionKey

SESSION_TIMEOUT_S: Final = 6.0
START_WAIT_S: Final = 15.0
# A start that waits longer logs what it waits for.
TOLD_AFTER_S: Final = 1.0
# Pause before an order is retried; the keeper looks at the root first.
INTERRUPTED_PAUSE_S: Final = 0.02
# Pause after ZooKeeper refused a request: an immediate retry would not help.
REFUSED_PAUSE_S: Final = 1.0

T = TypeVar("T")

_log = structlog.get_logger("bmq.election")


class ZooKeeperElection:
    """One process's session; made on the loop it is used on. Raises BadZooKeeperAddress, BadZooKeeperSecurity.

    `hosts`: `HOST:PORT[,HOST:PORT][/chroot]`; the chroot is created if it is missing. `session_timeout_s`: how long after
    its last sign of life a process counts as dead; ZooKeeper limits it to 2 to 20 of its ticks (2 s by default).
    `start_wait_s`: how long an order waits for ZooKeeper before ElectionUnavailable; `campaign` waits for ever.
    `on_session`: called with each new session, so that another process can end it when this one is dead.
    """

    def __init__(
        self,
        hosts: str,
        *,
        node_id: int,
        session_timeout_s: float = SESSION_TIMEOUT_S,
        start_wait_s: float = START_WAIT_S,
        on_session: Callable[[SessionKey], None] | None = None,
        security: ZooKeeperSecurity = OPEN,
    ) -> None:
        security.check()
        self._security = security
        self._address = ZooKeeperAddress.parse(hosts)
        self._layout = Layout(self._address.root)
        self._start_wait_s = start_wait_s
        self._session_timeout_s = session_timeout_s
        self._log = _log.bind(node_id=node_id)
        self._cluster_id = ""
        self._stale = asyncio.Event()
        self._session = ZooKeeperSession(
            self._address.servers, session_timeout_s, self._session_changed, on_session, security
        )
        self._leadership = ZooKeeperLeadership(self._session, self._layout, self._stale.set)
        self._members = ZooKeeperMembers(self._session, self._layout, session_timeout_s, self._stale.set)
        self._session_number = 0
        # The connection and the session in which we last verified that the root is ours.
        self._bound_connection = 0
        self._bound_number = 0
        self._lifecycle: asyncio.Task[None] | None = None
        self._complaint = ""

    # -- A session's life --------------------------------------------------------------------------------------------

    async def start(self, cluster_id: str) -> None:
        """Returns once `leader` and `members` are known; closes on failure.

        Raises ElectionUnavailable, ForeignElection.
        """
        self._cluster_id = cluster_id
        self._session.open()
        told = asyncio.get_running_loop().call_later(TOLD_AFTER_S, self._tell_of_waiting)
        try:
            await self._ordered(self._look)
        except BaseException:
            await self.close()
            raise
        finally:
            told.cancel()
        self._lifecycle = asyncio.create_task(self._keep(), name="zookeeper-keeper")

    async def close(self) -> None:
        """Our entry and leadership end with the session: at once, or after its timeout if ZooKeeper is away."""
        keeper, self._lifecycle = self._lifecycle, None
        self._leadership.close_for(ElectionUnavailable("the session with ZooKeeper was closed"))
        self._members.close()
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait({keeper})
        await self._session.close()

    def _tell_of_waiting(self) -> None:
        servers = ",".join(self._address.servers)
        self._log.warning("waiting_for_zookeeper", servers=servers, reason=self._session.trouble)

    # -- The port ----------------------------------------------------------------------------------------------------

    async def join(self, member: Member) -> None:
        wait_s = self._start_wait_s + 2 * self._session_timeout_s  # an old entry may have to expire first
        await self._ordered(lambda: self._members.join(member), wait_s)

    @property
    def leader(self) -> ControllerClaim | None:
        return self._leadership.leader

    def on_leader(self, changed: Callable[[ControllerClaim | None], None]) -> None:
        self._leadership.on_leader(changed)

    @property
    def members(self) -> Mapping[int, Member]:
        return self._members.members

    def on_members(self, changed: Callable[[Mapping[int, Member]], None]) -> None:
        self._members.on_members(changed)

    async def campaign(self, member: Member) -> ControllerClaim:
        with self._said_in_a_sentence():
            return await self._leadership.campaign(member)

    def on_lost(self, claim: ControllerClaim, lost: Callable[[], None]) -> None:
        self._leadership.on_lost(claim, lost)

    async def resign(self, claim: ControllerClaim) -> None:
        """As the port says. While ZooKeeper is away, we resign as soon as it is back."""
        with self._said_in_a_sentence():
            await self._leadership.resign(claim)

    async def depose(self, claim: ControllerClaim) -> None:
        await self._ordered(lambda: self._leadership.depose(claim))

    async def raise_epoch(self, minimum: int) -> int:
        return await self._ordered(lambda: self._leadership.raise_epoch(minimum))

    async def metadata_mark(self) -> MetadataMark | None:
        return await self._ordered(self._leadership.metadata_mark)

    async def raise_metadata_mark(self, mark: MetadataMark) -> None:
        await self._ordered(lambda: self._leadership.raise_metadata_mark(mark))

    # -- Keeping up --------------------------------------------------------------------------------------------------

    def _session_changed(self) -> None:
        if self._session_number != self._session.number:
            self._session_number = self._session.number
            self._leadership.session_lost()
        self._stale.set()

    async def _keep(self) -> None:
        while True:
            await self._stale.wait()
            try:
                await self._session.connected()
                self._stale.clear()
                await self._look()
                self._complaint = ""
            except Interrupted:
                self._stale.set()
            except SessionClosed:
                return
            except ForeignElection as error:
                # ZooKeeper lost its data and another cluster has taken the root. We do nothing until it is ours again.
                self._leadership.close_for(error)
                self._complain(str(error))
                await self._pause()
            except ZookeeperError as error:
                # NoNodeError: our nodes were deleted, so the next round creates them again.
                self._complain(self._named(error))
                await self._pause()

    def _complain(self, reason: str) -> None:
        """Log a reason once, not at every retry."""
        if reason != self._complaint:
            self._complaint = reason
            self._log.error("zookeeper_unusable", servers=str(self._address), reason=reason)

    async def _pause(self) -> None:
        self._bound_connection = 0
        await asyncio.sleep(REFUSED_PAUSE_S)
        self._stale.set()

    async def _look(self) -> None:
        if not self._bound_connection or self._bound_connection != self._session.connection_number:
            await self._bind()
        await self._leadership.look(self._bound_number)
        await self._members.look(self._bound_number)

    async def _bind(self) -> None:
        """Create the root if need be, and check that it belongs to this cluster. Raises ForeignElection."""
        await self._session.connected()
        connection_number, number = self._session.connection_number, self._session.number

        async def ask(order: Callable[[Any], Any]) -> Any:
            return await self._session.ask(order, number=number)

        async def create(path: str, data: bytes) -> None:
            with suppress(NodeExistsError):
                await ask(lambda zookeeper: zookeeper.create_async(path, data))

        # The new connection may lead to another server. After a sync no read is older than this moment.
        await ask(lambda zookeeper: zookeeper.sync_async("/"))
        await ask(lambda zookeeper: zookeeper.ensure_path_async(self._layout.top))
        await create(self._layout.cluster_id, self._cluster_id.encode())
        data, _ = await ask(lambda zookeeper: zookeeper.get_async(self._layout.cluster_id))
        found = data.decode(errors="replace")
        if found != self._cluster_id:
            raise ForeignElection(
                f"{self._address} in ZooKeeper belongs to the cluster {found!r}, this one is {self._cluster_id!r}: "
                "give it a root of its own with --zookeeper HOST:PORT/NAME, or delete that one if its cluster is gone"
            )
        await create(self._layout.controller_epoch, b"0")
        await create(self._layout.nodes, b"")
        if self._security.acl == NodeAccess.AUTH:
            await self._close_open_nodes(number)
        self._leadership.close_for(None)
        self._bound_connection, self._bound_number = connection_number, number

    async def _close_open_nodes(self, number: int) -> None:
        """Nodes that were made before we authenticated are changeable for everybody: take that away."""
        layout = self._layout
        names = await self._session.ask(lambda zookeeper: zookeeper.get_children_async(layout.nodes), number=number)
        tops = [layout.top] if layout.root else []  # the whole tree is not ours
        fixed = [*tops, layout.cluster_id, layout.controller_epoch, layout.nodes, layout.metadata_mark]
        for path in (*fixed, layout.controller, *(f"{layout.nodes}/{name}" for name in sorted(names))):
            with suppress(NoNodeError):
                await self._close_open_node(path, number)

    async def _close_open_node(self, path: str, number: int) -> None:
        """Raises NoNodeError."""
        acls, _ = await self._session.ask(lambda zookeeper: zookeeper.get_acls_async(path), number=number)
        if any(acl.id.scheme == "world" for acl in acls):
            await self._session.ask(lambda zookeeper: zookeeper.set_acls_async(path, CREATOR_ALL_ACL), number=number)
            self._log.info("zookeeper_node_closed", path=path)

    # -- Retries -----------------------------------------------------------------------------------------------------

    async def _ordered(self, order: Callable[[], Awaitable[T]], wait_s: float | None = None) -> T:
        """The result of `order`, retried when the connection is lost. Raises ElectionError."""
        wait_s = self._start_wait_s if wait_s is None else wait_s
        with self._said_in_a_sentence():
            try:
                async with asyncio.timeout(wait_s):
                    while True:
                        try:
                            return await order()
                        except Interrupted:
                            self._stale.set()
                            await asyncio.sleep(INTERRUPTED_PAUSE_S)
            except TimeoutError:
                trouble = f" ({self._session.trouble})" if self._session.trouble else ""
                raise ElectionUnavailable(
                    f"ZooKeeper did not answer at {','.join(self._address.servers)} within {wait_s:g} s{trouble}: "
                    "see that it runs, or name its servers with --zookeeper HOST:PORT"
                ) from None

    @contextmanager
    def _said_in_a_sentence(self) -> Iterator[None]:
        try:
            yield
        except SessionClosed:
            raise ElectionUnavailable("the session with ZooKeeper was closed") from None
        except ZookeeperError as error:
            raise ElectionUnavailable(f"ZooKeeper at {self._address} refuses: {self._named(error)}") from None

    def _named(self, error: ZookeeperError) -> str:
        security = self._security
        if isinstance(error, SessionClosedRequireSaslError) and not security.sasl_mechanism:
            return "it demands a login: set zookeeper_security.sasl_mechanism"
        if isinstance(error, (AuthFailedError, SessionClosedRequireSaslError)):
            return f"our login is not accepted; {self._session.login_fault or security.login_advice}"
        if isinstance(error, InvalidACLError):
            return "our session is not authenticated there, so acl = auth cannot be; see that the server has SASL"
        if isinstance(error, NoAuthError):
            return f"our nodes there are another user's; {security.owner_advice}"
        return f"{type(error).__name__} {error}".strip()
