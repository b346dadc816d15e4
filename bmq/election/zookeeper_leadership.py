"""The active controller's leadership in ZooKeeper: watching it, taking it under a new epoch, giving it up.

A candidate raises the counter and makes the ephemeral node in one transaction, so that no epoch is used twice and
nobody leads under an old one. Every change of holder changes the counter's version: a deletion that names the version
it has seen can never hit a successor. (The node's own version would not do: it is 0 each time the node is created.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kazoo.exceptions import NoNodeError

from bmq.dataclass import dataclass
from bmq.election.election import ControllerClaim, ElectionError, ForeignElection, Member, MetadataMark
from bmq.election.zookeeper_layout import EPOCH_MAX, Layout, decode_claim, decode_epoch, decode_mark, encoded
from bmq.election.zookeeper_session import Interrupted, SessionClosed, ZooKeeperSession

# How long `resign` waits; the next `look` completes an unfinished resignation.
RESIGN_WAIT_S: Final = 1.0

Changed = Callable[[ControllerClaim | None], None]
# Puts operations into one of kazoo's transactions.
Fill = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class LeaderNode:
    """The content of `/controller`. `claim` is None if it cannot be read; `session_id`: the session that holds it."""

    claim: ControllerClaim | None
    session_id: int | None


class ZooKeeperLeadership:
    """`ask_for_look`: asks for a call of `look`, whose answer may have changed."""

    def __init__(self, session: ZooKeeperSession, layout: Layout, ask_for_look: Callable[[], None]) -> None:
        self.leader: ControllerClaim | None = None
        self._session = session
        self._layout = layout
        self._ask_for_look = ask_for_look
        self._loop = asyncio.get_running_loop()
        self._watch = session.watch(lambda _: ask_for_look())
        # One look or change at a time, so that a look never returns a state older than our last change.
        self._turn = asyncio.Lock()
        self._vacant = asyncio.Event()
        # The session in which we last verified that the root is ours; we do nothing there in another one.
        self._number = 0
        self._held: ControllerClaim | None = None
        self._lost: list[Callable[[], None]] = []
        self._changed: list[Changed] = []
        # ZooKeeper may lose its data, so this process remembers the highest epoch it has seen.
        self._epoch_seen = 0
        self._closed_for: ElectionError | None = None

    def on_leader(self, changed: Changed) -> None:
        self._changed.append(changed)

    def on_lost(self, claim: ControllerClaim, lost: Callable[[], None]) -> None:
        if claim == self._held:
            self._lost.append(lost)
        else:
            self._loop.call_soon(lost)

    def session_lost(self) -> None:
        """The leadership, if we had it, ended with the session."""
        if self._held is not None:
            is_told = self.leader == self._held
            self._lose()
            if is_told:
                self._tell(None)

    def close_for(self, error: ElectionError | None) -> None:
        """Campaigns fail with this error, until None clears it."""
        self._closed_for = error
        if error is not None:
            self._vacant.set()

    # -- Looking -----------------------------------------------------------------------------------------------------

    async def look(self, number: int) -> None:
        """Read the present leader, and watch for the next change.

        `number`: of the session in which the root was verified. Raises Interrupted, SessionClosed, ZookeeperError.
        """
        async with self._turn:
            self._number = number
            # Set the watch first: `exists` also watches for a node that is not there yet.
            stat = await self._ask(lambda zookeeper, path: zookeeper.exists_async(path, watch=self._watch))
            seat = None if stat is None else await self._seat()
            if seat is not None and seat.session_id == self._session.id and seat.claim != self._held:
                # Left by a campaign that was cancelled before it learned of its success, or by an unfinished
                # resignation.
                await self._remove(seat)
                seat = await self._seat()
            self._see(seat)
            await self._counter()  # raises if the counter is gone: then the root has to be made again

    async def _seat(self) -> LeaderNode | None:
        try:
            data, stat = await self._ask(lambda zookeeper, path: zookeeper.get_async(path))
        except NoNodeError:
            return None
        return LeaderNode(decode_claim(data), stat.ephemeralOwner)

    def _see(self, seat: LeaderNode | None) -> None:
        claim = None if seat is None else seat.claim
        if self._held is not None and seat != LeaderNode(self._held, self._session.id):
            self._lose()
        if claim is not None:
            self._epoch_seen = max(self._epoch_seen, claim.epoch)
        if seat is None:
            self._vacant.set()
        else:
            self._vacant.clear()
        self._tell(claim)

    def _tell(self, claim: ControllerClaim | None) -> None:
        if claim != self.leader:
            self.leader = claim
            for changed in self._changed:
                self._loop.call_soon(changed, claim)

    def _lose(self) -> None:
        self._held = None
        lost, self._lost = self._lost, []
        for callback in lost:
            self._loop.call_soon(callback)

    # -- Taking it ---------------------------------------------------------------------------------------------------

    async def campaign(self, member: Member) -> ControllerClaim:
        """Wait for a vacancy and take it. Raises ElectionError, SessionClosed, ZookeeperError."""
        try:
            while True:
                await self._vacant.wait()
                if self._closed_for is not None:
                    raise self._closed_for
                async with self._turn:
                    claim = await self._take(member)
                if claim is not None:
                    return claim
        finally:
            # A cancelled campaign may have won without knowing it, and a winner needs a watch.
            self._ask_for_look()

    async def _take(self, member: Member) -> ControllerClaim | None:
        """Try once; None: somebody else was quicker, or the connection was lost. The outcome is certain either way."""
        session_number = self._number
        try:
            counter, version = await self._counter()
        except (Interrupted, NoNodeError):
            # NoNodeError: somebody deleted the data. The following look will find that too.
            self._vacant.clear()
            self._ask_for_look()
            return None
        epoch = max(counter, self._epoch_seen) + 1
        if epoch > EPOCH_MAX:
            raise ForeignElection(f"{self._layout.controller_epoch} in ZooKeeper is at its end, {counter}")
        claim = ControllerClaim(member.node_id, member.host, member.port, epoch)
        try:
            is_done = await self._commit(self._taking(claim, version))
        except Interrupted:
            is_done = await self._was_taken(claim, session_number)
        if not is_done or self._session.number != session_number:
            self._vacant.clear()  # until a look says otherwise
            self._ask_for_look()
            return None
        self._held = claim
        self._see(LeaderNode(claim, self._session.id))
        return claim

    def _taking(self, claim: ControllerClaim, version: int) -> Fill:
        def fill(transaction: Any) -> None:
            transaction.set_data(self._layout.controller_epoch, str(claim.epoch).encode(), version)
            transaction.create(self._layout.controller, encoded(claim), ephemeral=True)

        return fill

    async def _was_taken(self, claim: ControllerClaim, session_number: int) -> bool:
        """Whether a transaction without an answer was carried out.

        It cannot be carried out later: ZooKeeper closes a session's old connection before it accepts a new one.
        """
        while True:
            await self._session.connected()
            if self._session.number != session_number:
                return False  # the ephemeral node is gone with its session
            try:
                await self._session.ask(lambda zookeeper: zookeeper.sync_async("/"), number=session_number)
                return await self._seat() == LeaderNode(claim, self._session.id)
            except Interrupted:
                continue

    # -- Ending it ---------------------------------------------------------------------------------------------------

    async def resign(self, claim: ControllerClaim) -> None:
        """Give the leadership up, now or once ZooKeeper is back. Raises ZookeeperError."""
        if claim != self._held:
            return
        self._held = None
        self._lost.clear()
        if self.leader == claim:
            self._tell(None)
        try:
            async with asyncio.timeout(RESIGN_WAIT_S), self._turn:
                await self._remove(LeaderNode(claim, self._session.id))
        except (TimeoutError, Interrupted, SessionClosed):
            pass  # closing the session gives it up too
        finally:
            self._ask_for_look()

    async def depose(self, claim: ControllerClaim) -> None:
        """Raises Interrupted, SessionClosed, ZookeeperError."""
        async with self._turn:
            await self._remove(LeaderNode(claim, None))
            self._see(await self._seat())
        self._ask_for_look()

    async def _remove(self, unwanted: LeaderNode) -> None:
        """Delete the node if it is this claim's, and this session's when one is named."""
        while True:
            try:
                _, version = await self._counter()
            except NoNodeError:
                return  # ZooKeeper lost its data, including the leadership
            seat = await self._seat()
            if seat is None or seat.claim != unwanted.claim:
                return
            if unwanted.session_id is not None and seat.session_id != unwanted.session_id:
                return
            if await self._commit(self._removal(version)):
                return

    def _removal(self, version: int) -> Fill:
        def fill(transaction: Any) -> None:
            transaction.check(self._layout.controller_epoch, version)
            transaction.delete(self._layout.controller)

        return fill

    # -- The counter -------------------------------------------------------------------------------------------------

    async def raise_epoch(self, minimum: int) -> int:
        """Raises Interrupted, SessionClosed, ForeignElection, ZookeeperError."""
        if minimum > EPOCH_MAX:
            raise ElectionError(f"{minimum} is no controller epoch: the highest is {EPOCH_MAX}")
        while True:
            counter, version = await self._counter()
            if counter >= minimum:
                return counter
            if await self._commit(self._raising(minimum, version)):
                return minimum

    def _raising(self, epoch: int, version: int) -> Fill:
        def fill(transaction: Any) -> None:
            transaction.set_data(self._layout.controller_epoch, str(epoch).encode(), version)

        return fill

    async def _counter(self) -> tuple[int, int]:
        """The counter's value, and its version in ZooKeeper."""
        data, stat = await self._session.ask(
            lambda zookeeper: zookeeper.get_async(self._layout.controller_epoch), number=self._number
        )
        counter = decode_epoch(data)
        if counter is None:
            raise ForeignElection(
                f"{self._layout.controller_epoch} in ZooKeeper holds no epoch: something else uses this root, "
                "so name another one behind --zookeeper HOST:PORT"
            )
        return counter, stat.version

    # -- The metadata mark -------------------------------------------------------------------------------------------

    async def metadata_mark(self) -> MetadataMark | None:
        """Raises Interrupted, SessionClosed, ZookeeperError."""
        return (await self._mark())[0]

    async def raise_metadata_mark(self, mark: MetadataMark) -> None:
        """Raises Interrupted, SessionClosed, ZookeeperError."""
        path = self._layout.metadata_mark
        while True:
            found, version = await self._mark()
            if found is not None and found >= mark:
                return

            def fill(transaction: Any, version: int | None = version) -> None:
                if version is None:
                    transaction.create(path, encoded(mark))
                else:
                    transaction.set_data(path, encoded(mark), version)

            if await self._commit(fill):
                return

    async def _mark(self) -> tuple[MetadataMark | None, int | None]:
        """The mark, and its node's version in ZooKeeper; None: it does not exist."""
        try:
            data, stat = await self._session.ask(
                lambda zookeeper: zookeeper.get_async(self._layout.metadata_mark), number=self._number
            )
        except NoNodeError:
            return None, None
        return decode_mark(data), stat.version

    # -- Parts -------------------------------------------------------------------------------------------------------

    async def _ask(self, order: Callable[[Any, str], Any]) -> Any:
        return await self._session.ask(lambda zookeeper: order(zookeeper, self._layout.controller), number=self._number)

    async def _commit(self, fill: Fill) -> bool:
        """Commit one transaction; False when ZooKeeper refused it because something has changed."""

        def order(zookeeper: Any) -> Any:
            transaction = zookeeper.transaction()
            fill(transaction)
            return transaction.commit_async()

        return not any(isinstance(result, Exception) for result in await self._session.ask(order, number=self._number))
