"""An election service in memory, on the time of the loop it is given: what ZooKeeper is for bmq.election.zookeeper.

    service = FakeElectionService(loop, Random(seed))
    election = service.session(node_id=1)      # implements bmq.election.election.Election
    service.pause(); service.resume()          # away, for everybody
    service.cut(election); service.mend(election)
    service.expire(election); service.kill(election); service.wipe()

A session lives as long as its process sends heartbeats, which it does in its own simulated process: one that is paused
for longer than the session timeout loses it and hears of that when it goes on. The same seed gives the same history.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Final

from bmq.election.election import (
    ControllerClaim,
    DuplicateNode,
    ElectionUnavailable,
    ForeignElection,
    Member,
    MetadataMark,
)

HEARTBEATS_PER_TIMEOUT: Final = 3
RECONNECT_S_MAX: Final = 0.5
# As in ZooKeeper, where sessions end a little later than they might.
EXPIRY_ROUNDING: Final = 1.5

LeaderChanged = Callable[[ControllerClaim | None], None]
MembersChanged = Callable[[Mapping[int, Member]], None]


class FakeElectionService:
    """`latency_s`: bounds of the time a message takes each way."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        *,
        session_timeout_s: float = 6.0,
        start_wait_s: float = 15.0,
        latency_s: tuple[float, float] = (0.0005, 0.005),
    ) -> None:
        self.loop = loop
        self.random = random
        self.session_timeout_s = session_timeout_s
        self.start_wait_s = start_wait_s
        self.is_away = False
        self.cluster_id: str | None = None
        self.epoch = 0
        self.mark: MetadataMark | None = None
        self.seat: tuple[ControllerClaim, int] | None = None
        self.entries: dict[int, tuple[Member, int]] = {}
        self._latency_s = latency_s
        self._heard_at_s: dict[int, float] = {}
        self._session_count = 0
        self._clients: list[FakeElection] = []

    def session(self, node_id: int) -> FakeElection:
        """For one process; not started."""
        client = FakeElection(self, node_id)
        self._clients.append(client)
        return client

    # -- What may happen to it ---------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Away: nothing is answered and nobody's time runs out."""
        self.is_away = True
        for client in self._clients:
            client.disconnect()

    def resume(self, *, is_time_counted: bool = False) -> None:
        """Back. `is_time_counted`: it only hung, so the sessions that ran out meanwhile end now."""
        self.is_away = False
        for session_id in tuple(self._heard_at_s):
            if not is_time_counted:
                self._heard_at_s[session_id] = self.loop.time()
            self._check(session_id)
        for client in self._clients:
            client.reconnect_soon()

    def cut(self, election: FakeElection) -> None:
        """One process cannot reach it."""
        election.is_cut = True
        election.disconnect()

    def mend(self, election: FakeElection) -> None:
        election.is_cut = False
        election.reconnect_soon()

    def expire(self, election: FakeElection) -> None:
        """It ends the session of a process that is alive."""
        self.end_session(election.session_id)
        election.disconnect()
        election.reconnect_soon()

    def kill(self, election: FakeElection) -> None:
        """The process is dead: it hears nothing any more, and its session ends when its time is up."""
        election.kill()

    def wipe(self) -> None:
        """All data is lost, with all sessions."""
        self.cluster_id, self.epoch, self.mark, self.seat = None, 0, None, None
        self.entries.clear()
        self._heard_at_s.clear()
        for client in self._clients:
            client.disconnect()
            client.reconnect_soon()

    # -- What processes ask of it ------------------------------------------------------------------------------------

    def open_session(self) -> int:
        self._session_count += 1
        self._heard_at_s[self._session_count] = self.loop.time()
        self._check(self._session_count)
        return self._session_count

    def heartbeat(self, session_id: int) -> bool:
        """Whether the session lives."""
        if session_id not in self._heard_at_s:
            return False
        self._heard_at_s[session_id] = self.loop.time()
        return True

    def end_session(self, session_id: int) -> None:
        if self._heard_at_s.pop(session_id, None) is None:
            return
        if self.seat is not None and self.seat[1] == session_id:
            self.seat = None
        for node_id in [node_id for node_id, (_, owner) in self.entries.items() if owner == session_id]:
            del self.entries[node_id]
        self.tell()

    def tell(self) -> None:
        """Something changed."""
        for client in self._clients:
            client.refresh_soon()

    def latency(self) -> float:
        return self.random.uniform(*self._latency_s)

    def forget(self, client: FakeElection) -> None:
        if client in self._clients:  # a process may close its session and then be killed
            self._clients.remove(client)

    def _check(self, session_id: int) -> None:
        """In no process's context: it goes on when they are paused or dead."""
        heard_at_s = self._heard_at_s.get(session_id)
        if heard_at_s is None or self.is_away:
            return
        ends_at_s = heard_at_s + self.session_timeout_s
        if self.loop.time() >= ends_at_s:
            self.end_session(session_id)
        else:
            self.loop.call_at(ends_at_s, self._check, session_id, context=contextvars.Context())


class FakeElection:
    """Implements bmq.election.election.Election. Everything of it runs in the context in which it is started."""

    def __init__(self, service: FakeElectionService, node_id: int) -> None:
        self.node_id = node_id
        self.session_id = 0
        self.is_cut = False
        self._service = service
        self._loop = service.loop
        self._context = contextvars.copy_context()
        self._cluster_id = ""
        self._is_started = False
        self._is_ended = False
        self._is_connected = False
        self._was_away = False
        self._settled_at_s = 0.0
        self._leader: ControllerClaim | None = None
        self._held: ControllerClaim | None = None
        self._taking: ControllerClaim | None = None
        self._lost: list[tuple[Callable[[], None], contextvars.Context]] = []
        self._members: Mapping[int, Member] = MappingProxyType({})
        self._own: Member | None = None
        self._epoch_seen = 0
        self._foreign: ForeignElection | None = None
        self._changed = asyncio.Event()
        self._on_leader: list[tuple[LeaderChanged, contextvars.Context]] = []
        self._on_members: list[tuple[MembersChanged, contextvars.Context]] = []

    # -- The port ----------------------------------------------------------------------------------------------------

    async def start(self, cluster_id: str) -> None:
        self._context = contextvars.copy_context()
        self._cluster_id = cluster_id
        self._is_started = True
        self.reconnect_soon()
        self._heartbeat()
        try:
            await self._trip(self._service.start_wait_s)
        except BaseException:
            await self.close()
            raise
        self._refresh()

    async def join(self, member: Member) -> None:
        self._own = member
        waited_from_s: float | None = None
        try:
            await self._trip(self._service.start_wait_s)
            while not self._enter():
                if waited_from_s is None or self._was_away:
                    waited_from_s, self._was_away = self._loop.time(), False
                left_s = waited_from_s + self._service.session_timeout_s * EXPIRY_ROUNDING - self._loop.time()
                if left_s <= 0 and self._is_connected:
                    raise DuplicateNode(
                        f"another live process has node id {self.node_id}: give each node an id of its own"
                    )
                await self._change(left_s if left_s > 0 else None)
        except BaseException:
            self._own = None
            raise

    @property
    def leader(self) -> ControllerClaim | None:
        return self._leader

    def on_leader(self, changed: LeaderChanged) -> None:
        self._on_leader.append((changed, contextvars.copy_context()))

    @property
    def members(self) -> Mapping[int, Member]:
        return self._members

    def on_members(self, changed: MembersChanged) -> None:
        self._on_members.append((changed, contextvars.copy_context()))

    async def campaign(self, member: Member) -> ControllerClaim:
        service = self._service
        while True:
            await self._trip(None)
            if service.seat is not None:
                await self._change(None)
                continue
            session_id = self.session_id
            service.epoch = max(service.epoch, self._epoch_seen) + 1
            claim = ControllerClaim(member.node_id, member.host, member.port, service.epoch)
            service.seat = (claim, session_id)
            service.tell()
            self._taking = claim
            try:
                await asyncio.sleep(service.latency())
                if service.seat == (claim, self.session_id):
                    self._held = claim
                    self._see_leader(claim)
                    return claim
            finally:
                self._taking = None
                if self._held != claim:
                    self._vacate(claim)

    def on_lost(self, claim: ControllerClaim, lost: Callable[[], None]) -> None:
        entry = (lost, contextvars.copy_context())
        if claim == self._held:
            self._lost.append(entry)
        else:
            self._loop.call_soon(lost, context=entry[1])

    async def resign(self, claim: ControllerClaim) -> None:
        if claim != self._held:
            return
        self._held = None
        self._lost.clear()
        if self._leader == claim:
            self._see_leader(None)
        if self._is_connected:
            self._vacate(claim)
            await asyncio.sleep(self._service.latency())

    async def depose(self, claim: ControllerClaim) -> None:
        await self._trip(self._service.start_wait_s)
        self._vacate(claim)
        await asyncio.sleep(self._service.latency())

    async def raise_epoch(self, minimum: int) -> int:
        await self._trip(self._service.start_wait_s)
        self._service.epoch = max(self._service.epoch, minimum)
        return self._service.epoch

    async def metadata_mark(self) -> MetadataMark | None:
        await self._trip(self._service.start_wait_s)
        return self._service.mark

    async def raise_metadata_mark(self, mark: MetadataMark) -> None:
        await self._trip(self._service.start_wait_s)
        if self._service.mark is None or mark > self._service.mark:
            self._service.mark = mark

    async def close(self) -> None:
        if self._is_ended:
            return
        is_heard = self._is_connected
        self.kill()
        self._changed.set()
        if is_heard:
            self._service.end_session(self.session_id)
        await asyncio.sleep(0)

    # -- What the service does to it ---------------------------------------------------------------------------------

    def kill(self) -> None:
        self._is_ended = True
        self._is_connected = False
        self._service.forget(self)

    def disconnect(self) -> None:
        self._was_away = self._was_away or self._is_connected
        self._is_connected = False

    def reconnect_soon(self) -> None:
        if self._is_started:
            delay_s = self._service.random.uniform(0, RECONNECT_S_MAX) if self.session_id else self._service.latency()
            self._loop.call_later(delay_s, self._reconnect, context=self._context)

    def refresh_soon(self) -> None:
        if self._is_started:
            self._loop.call_later(self._service.latency(), self._refresh, context=self._context)

    # -- The session -------------------------------------------------------------------------------------------------

    def _heartbeat(self) -> None:
        if self._is_ended:
            return
        interval_s = self._service.session_timeout_s / HEARTBEATS_PER_TIMEOUT
        self._loop.call_later(interval_s, self._heartbeat, context=self._context)
        self._hear_of_end()

    def _hear_of_end(self) -> None:
        """Whoever was silent for too long hears of it with the next message: nothing is done in an ended session."""
        if self._is_connected and not self._service.heartbeat(self.session_id):
            self.disconnect()
            self._reconnect()

    def _reconnect(self) -> None:
        service = self._service
        if self._is_ended or self._is_connected or self.is_cut or service.is_away:
            return
        if self.session_id:
            self._settled_at_s = self._loop.time() + service.session_timeout_s
            self._loop.call_later(service.session_timeout_s, self._refresh, context=self._context)
        if not service.heartbeat(self.session_id):
            self.session_id = service.open_session()
            if self._held is not None:
                is_told = self._leader == self._held
                self._lose()
                if is_told:
                    self._see_leader(None)
        service.cluster_id = service.cluster_id or self._cluster_id
        self._foreign = None
        if service.cluster_id != self._cluster_id:
            self._foreign = ForeignElection(
                f"the root belongs to the cluster {service.cluster_id!r}, this one is {self._cluster_id!r}: "
                "give it a root of its own"
            )
        self._is_connected = True
        self._refresh()

    def _refresh(self) -> None:
        service = self._service
        self._hear_of_end()
        if self._is_ended or not self._is_connected:
            return
        if self._foreign is None:
            if self._own is not None:
                self._enter()
            if service.seat is not None and service.seat[1] == self.session_id:
                if service.seat[0] not in (self._held, self._taking):
                    self._vacate(service.seat[0])  # given up while the service was away
            elif self._held is not None:
                self._lose()
            self._see_leader(service.seat[0] if service.seat else None)
            self._see_members({node_id: member for node_id, (member, _) in sorted(service.entries.items())})
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _enter(self) -> bool:
        """Whether the own entry is there."""
        assert self._own is not None
        present = self._service.entries.get(self.node_id)
        if not self._is_connected:
            return False
        if present is None:
            self._service.entries[self.node_id] = (self._own, self.session_id)
            self._service.tell()
        elif present[1] == self.session_id:
            self._service.entries[self.node_id] = (self._own, self.session_id)
        return self._service.entries[self.node_id][1] == self.session_id

    def _vacate(self, claim: ControllerClaim) -> None:
        if self._service.seat is not None and self._service.seat[0] == claim and self._is_connected:
            self._service.seat = None
            self._service.tell()

    def _lose(self) -> None:
        self._held = None
        lost, self._lost = self._lost, []
        for callback, context in lost:
            self._loop.call_soon(callback, context=context)

    def _see_leader(self, claim: ControllerClaim | None) -> None:
        if claim is not None:
            self._epoch_seen = max(self._epoch_seen, claim.epoch)
        if claim != self._leader:
            self._leader = claim
            for changed, context in self._on_leader:
                self._loop.call_soon(changed, claim, context=context)

    def _see_members(self, found: dict[int, Member]) -> None:
        if self._loop.time() < self._settled_at_s:
            found = {**self._members, **found}
        if found != self._members:
            self._members = MappingProxyType(found)
            for changed, context in self._on_members:
                self._loop.call_soon(changed, self._members, context=context)

    # -- Waiting -----------------------------------------------------------------------------------------------------

    async def _trip(self, wait_s: float | None) -> None:
        """One message to the service. Raises ElectionUnavailable, ForeignElection."""
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    while not self._is_connected:
                        await self._change(None)
                    await asyncio.sleep(self._service.latency())
                    self._hear_of_end()
                    if self._is_connected:
                        break
        except TimeoutError:
            raise ElectionUnavailable(f"the service did not answer within {wait_s} s: see that it runs") from None
        if self._foreign is not None:
            raise self._foreign

    async def _change(self, wait_s: float | None) -> None:
        """Until something changed. Raises ElectionUnavailable when this is closed."""
        try:
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        except TimeoutError:
            pass
        if self._is_ended:
            raise ElectionUnavailable("the session was closed")
