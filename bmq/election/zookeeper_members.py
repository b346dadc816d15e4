"""Live processes in ZooKeeper: an ephemeral node for each; this process makes its own again when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final

import structlog
from kazoo.exceptions import NodeExistsError, NoNodeError

from bmq.dataclass import dataclass
from bmq.election.election import DuplicateNode, Member
from bmq.election.zookeeper_layout import Layout, decode_member, encoded
from bmq.election.zookeeper_session import SessionClosed, ZooKeeperSession

# ZooKeeper ends sessions in steps of a tick, and the shortest session is two ticks long.
_EXPIRY_ROUNDING: Final = 1.5

Changed = Callable[[Mapping[int, Member]], None]

_log = structlog.get_logger("bmq.election")


@dataclass(frozen=True, slots=True)
class Entry:
    """One node; `member` is None if it cannot be read, `session_id` is the session that holds it."""

    member: Member | None
    session_id: int


class ZooKeeperMembers:
    """`ask_for_look`: asks for a call of `look`, whose answer may have changed."""

    def __init__(
        self, session: ZooKeeperSession, layout: Layout, session_timeout_s: float, ask_for_look: Callable[[], None]
    ) -> None:
        self.members: Mapping[int, Member] = MappingProxyType({})
        self._session = session
        self._layout = layout
        self._session_timeout_s = session_timeout_s
        self._ask_for_look = ask_for_look
        self._loop = asyncio.get_running_loop()
        self._changed: list[Changed] = []
        # Nodes that were read and are watched; a name missing here has to be read.
        self._entries: dict[str, Entry] = {}
        self._changed_paths: set[str] = set()
        self._list_watch = session.watch(lambda _: ask_for_look())
        self._entry_watch = session.watch(self._entry_changed)
        self._connection_number = 0
        self._settled_at_s = 0.0
        self._number = 0
        self._own: Member | None = None
        self._looked = asyncio.Event()
        self._is_taken_logged = False
        self._is_closed = False

    def on_members(self, changed: Changed) -> None:
        self._changed.append(changed)

    # -- Looking -----------------------------------------------------------------------------------------------------

    async def look(self, number: int) -> None:
        """Read the live processes, and watch for the next change.

        `number`: of the session in which the root was verified. Raises Interrupted, SessionClosed, ZookeeperError.
        """
        self._number = number
        self._forget_earlier_connection()
        await self._read_entries()
        if self._own is not None and not self._is_entered(self._own):
            await self._enter(self._own)
        self._publish()
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()

    def _forget_earlier_connection(self) -> None:
        if self._connection_number == self._session.connection_number:
            return
        if self._connection_number:
            # ZooKeeper was away, perhaps for everybody. Processes whose sessions it ended meanwhile will be back in a
            # moment, so do not take them for dead.
            self._settled_at_s = self._loop.time() + self._session_timeout_s
            self._loop.call_later(self._session_timeout_s, self._ask_for_look)
        self._connection_number = self._session.connection_number
        self._entries.clear()
        self._changed_paths.clear()

    async def _read_entries(self) -> None:
        names = await self._session.ask(
            lambda zookeeper: zookeeper.get_children_async(self._layout.nodes, watch=self._list_watch),
            number=self._number,
        )
        for name in self._entries.keys() - set(names):
            del self._entries[name]
        self._changed_paths.intersection_update(f"{self._layout.nodes}/{name}" for name in names)
        unread = [name for name in sorted(names) if name not in self._entries]
        await asyncio.gather(*(self._read(name) for name in unread))

    async def _read(self, name: str) -> None:
        """Read one node and watch it: in the list of names, a node that was made anew looks unchanged."""
        self._changed_paths.discard(path := f"{self._layout.nodes}/{name}")
        try:
            data, stat = await self._session.ask(
                lambda zookeeper: zookeeper.get_async(path, watch=self._entry_watch), number=self._number
            )
        except NoNodeError:
            return
        # Watches and answers come from two threads: a change notice may overtake the answer of an earlier read.
        if path not in self._changed_paths:
            self._entries[name] = Entry(decode_member(data), stat.ephemeralOwner)

    def _entry_changed(self, path: str | None) -> None:
        if path is not None:
            self._changed_paths.add(path)
            self._entries.pop(path.rpartition("/")[2], None)
        self._ask_for_look()

    def _publish(self) -> None:
        found = {
            entry.member.node_id: entry.member
            for name, entry in sorted(self._entries.items())
            if entry.member is not None and name == str(entry.member.node_id)
        }
        if self._loop.time() < self._settled_at_s:
            found = {**self.members, **found}
        if found != self.members:
            self.members = MappingProxyType(found)
            for changed in self._changed:
                self._loop.call_soon(changed, self.members)

    # -- Our own entry -----------------------------------------------------------------------------------------------

    async def join(self, member: Member) -> None:
        """Returns once our entry exists; it is maintained from then on. Raises DuplicateNode.

        Each connection restarts the wait for an old entry: a restarted server gives sessions their full timeout again.
        """
        self._own = member
        self._ask_for_look()
        connection_number, seen_at_s = 0, 0.0
        try:
            while not self._is_entered(member):
                if self._is_closed:
                    raise SessionClosed
                looked, left_s = self._looked, None
                if self._is_taken(member) and self._session.is_connected:
                    if connection_number != self._session.connection_number:
                        connection_number, seen_at_s = self._session.connection_number, self._loop.time()
                    left_s = seen_at_s + self._session_timeout_s * _EXPIRY_ROUNDING - self._loop.time()
                    if left_s <= 0:
                        raise DuplicateNode(self._duplicate(member))
                with suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await looked.wait()
        except BaseException:
            self._own = None
            raise

    def close(self) -> None:
        """Callers in `join` get SessionClosed."""
        self._is_closed = True
        self._looked.set()

    async def _enter(self, member: Member) -> None:
        path = self._layout.node(member.node_id)
        entry = self._entries.get(str(member.node_id))
        try:
            if entry is None:
                await self._session.ask(
                    lambda zookeeper: zookeeper.create_async(path, encoded(member), ephemeral=True), number=self._number
                )
            elif entry.session_id == self._session.id:
                await self._session.ask(
                    lambda zookeeper: zookeeper.set_async(path, encoded(member)), number=self._number
                )
            else:
                self._log_taken(member)
                return  # its watch will tell when it is gone
        except (NodeExistsError, NoNodeError):
            pass
        self._entries.pop(str(member.node_id), None)
        await self._read(str(member.node_id))
        self._is_taken_logged = False
        if not self._is_entered(member):
            self._ask_for_look()

    def _is_entered(self, member: Member) -> bool:
        return self._entries.get(str(member.node_id)) == Entry(member, self._session.id or 0)

    def _is_taken(self, member: Member) -> bool:
        entry = self._entries.get(str(member.node_id))
        return entry is not None and entry.session_id != self._session.id

    def _log_taken(self, member: Member) -> None:
        if not self._is_taken_logged:
            self._is_taken_logged = True
            where = self._where(member)
            _log.warning("node_id_taken", node_id=member.node_id, reason=f"waiting for the session of a process{where}")

    def _duplicate(self, member: Member) -> str:
        where = self._where(member)
        return f"another live process{where} has node id {member.node_id}: give each node an id of its own"

    def _where(self, member: Member) -> str:
        """A description of the process that has the entry."""
        entry = self._entries.get(str(member.node_id))
        other = None if entry is None else entry.member
        return "" if other is None else f" at {other.host}:{other.port}"
