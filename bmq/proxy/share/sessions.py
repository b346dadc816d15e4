"""Share sessions (KIP-932): the partitions that a member of a share group reads at this proxy. Decisions only.

A session belongs to (group, member) and to the connection that opened it. A request's epoch is 0 to open it, then 1, 2, …; -1
closes it. Each accepted ShareFetch and ShareAcknowledge advances it. A session that is opened again keeps the partitions of which
the earlier one may hold records, so that the end of its connection releases these too. Source: KIP-932, Kafka's
SharePartitionManager.newContext and ShareSessionCache (4.3).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, Protocol
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.log.partition_log import TopicPartition
from bmq.protocol.error_codes import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
SESSIONS_MAX: Final = 2_000
"""Most share sessions of a proxy: group.share.max.share.sessions."""
SESSION_PARTITIONS_MAX: Final = 20_000
"""Most partitions of one session: each of its fetches looks at all of them."""
PARTITIONS_MAX: Final = 1_000_000
"""Most partitions of all sessions of a proxy."""
NO_TOPIC: Final = UUID(int=0)

SessionKey = tuple[str, str]
"""(group id, member id)"""


class NamedTopic(Protocol):
    """A topic of a ShareFetch request."""

    topic_id: UUID | None


class SessionPartition:
    """One partition of a session. `must_send`: the next answer has it even without records."""

    __slots__ = ("must_send", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, must_send: bool) -> None:
        self.topic_partition = topic_partition
        self.must_send = must_send


class ShareSession:
    """One member's share session.

    `number`: above the numbers of all earlier sessions of the proxy. `touched`: partitions of which the member may hold records.
    `incarnation`: id and epoch of the node that acquired them. `successor`: the session that replaced this one.
    """

    __slots__ = (
        "connection",
        "epoch",
        "incarnation",
        "is_ended",
        "key",
        "number",
        "partitions",
        "size",
        "successor",
        "touched",
    )

    def __init__(
        self, key: SessionKey, number: int, connection: Hashable, partitions: dict[TopicPartition, SessionPartition]
    ) -> None:
        self.key = key
        self.number = number
        self.connection = connection
        self.partitions = partitions
        self.size = len(partitions)  # partitions as counted by the cache
        self.epoch = 1  # the epoch expected in the next request
        self.touched: dict[tuple[UUID, int], None] = {}
        self.incarnation = (-1, -1)
        self.is_ended = False
        self.successor: ShareSession | None = None

    @property
    def is_over(self) -> bool:
        """Whether the session has ended without a successor, so that records acquired for it belong to no member."""
        newest = self
        while newest.successor is not None:
            newest = newest.successor
        return newest.is_ended


@dataclass(slots=True)
class ShareScope:
    """What a request may do. With an `error_code` the whole request is refused.

    `partitions`: those to look at, in order. `is_opening`: the answer has all of them. `is_final`: the session ends once the
    request's acknowledgements are done.
    """

    error_code: ErrorCode = ErrorCode.NONE
    session: ShareSession | None = None
    partitions: Sequence[SessionPartition] = ()
    is_opening: bool = False
    is_final: bool = False


def next_epoch(epoch: int) -> int:
    return 1 if epoch >= EPOCH_MAX else epoch + 1


class ShareSessionCache:
    """All share sessions of this proxy."""

    def __init__(self, *, sessions_max: int = SESSIONS_MAX, partitions_max: int = PARTITIONS_MAX) -> None:
        self.sessions_max = sessions_max
        self.partitions_max = partitions_max
        self.partition_count = 0
        self.evicted = 0  # sessions that ended with their connections
        self._number = 0
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[Hashable, dict[SessionKey, None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def fetch(
        self,
        key: SessionKey,
        epoch: int,
        named: Sequence[TopicPartition],
        forgotten: Iterable[TopicPartition],
        *,
        has_acknowledgements: bool,
        connection: Hashable,
    ) -> ShareScope:
        """The scope of a ShareFetch that adds `named` and removes `forgotten` partitions."""
        if epoch == INITIAL_EPOCH:
            return self._open(key, named, has_acknowledgements, connection)
        session = self._sessions.get(key)
        if session is None:
            return ShareScope(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL_EPOCH:
            return ShareScope(session=session, is_final=True)
        if session.epoch != epoch:
            return ShareScope(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        partitions = session.partitions
        added = [one for one in named if one not in partitions]
        if len(partitions) + len(added) > SESSION_PARTITIONS_MAX:
            return ShareScope(ErrorCode.INVALID_REQUEST)
        if self.partition_count + len(added) > self.partitions_max:
            return ShareScope(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        for one in added:
            partitions[one] = SessionPartition(one, must_send=True)
        for one in forgotten:
            partitions.pop(one, None)
        self.partition_count += len(partitions) - session.size
        session.size = len(partitions)
        session.epoch = next_epoch(epoch)
        return ShareScope(session=session, partitions=_rotated(tuple(partitions.values()), epoch))

    def acknowledge(self, key: SessionKey, epoch: int) -> ShareScope:
        """The scope of a ShareAcknowledge, which may name any partition."""
        if epoch == INITIAL_EPOCH:
            return ShareScope(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = self._sessions.get(key)
        if session is None:
            return ShareScope(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL_EPOCH:
            return ShareScope(session=session, is_final=True)
        if session.epoch != epoch:
            return ShareScope(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = next_epoch(epoch)
        return ShareScope(session=session)

    def has_connection(self, connection: Hashable) -> bool:
        return connection in self._by_connection

    def lost(self, connection: Hashable) -> list[ShareSession]:
        """Remove and return the sessions of a connection that ended."""
        ended = [self._sessions[key] for key in self._by_connection.get(connection, ())]
        for session in ended:
            self.end(session)
        self.evicted += len(ended)
        return ended

    def end(self, session: ShareSession) -> None:
        """Remove a session, unless a newer one of its member has replaced it."""
        session.is_ended = True
        if self._sessions.get(session.key) is session:
            del self._sessions[session.key]
            self.partition_count -= session.size
            keys = self._by_connection[session.connection]
            del keys[session.key]
            if not keys:
                del self._by_connection[session.connection]

    def members_here(self, group_id: str) -> int:
        """How many sessions the group has at this proxy."""
        return sum(1 for group, _ in self._sessions if group == group_id)

    def _open(
        self, key: SessionKey, named: Sequence[TopicPartition], has_acknowledgements: bool, connection: Hashable
    ) -> ShareScope:
        if has_acknowledgements:
            return ShareScope(ErrorCode.INVALID_REQUEST)
        partitions = {one: SessionPartition(one, must_send=False) for one in named}
        if len(partitions) > SESSION_PARTITIONS_MAX:
            return ShareScope(ErrorCode.INVALID_REQUEST)
        earlier = self._sessions.get(key)
        other_count = self.partition_count - (0 if earlier is None else earlier.size)
        is_full = earlier is None and len(self._sessions) >= self.sessions_max
        if is_full or other_count + len(partitions) > self.partitions_max:
            # Continue an earlier session, so that the end of its connection releases the records that its member holds.
            return ShareScope(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        if earlier is not None:
            self.end(earlier)
        self._number += 1
        session = self._sessions[key] = ShareSession(key, self._number, connection, partitions)
        if earlier is not None:
            session.touched, session.incarnation = earlier.touched, earlier.incarnation
            earlier.successor = session  # a fetch of it that is under way sends its records to the same member
        self._by_connection.setdefault(connection, {})[key] = None
        self.partition_count += session.size
        return ShareScope(session=session, partitions=tuple(partitions.values()), is_opening=True)


def must_send_partition(scope: ShareScope, partition: SessionPartition, *, has_records: bool, has_error: bool) -> bool:
    """Whether the answer has to have this partition; remembers that it was sent.

    A partition with records is looked at last from now on.
    """
    if scope.is_opening:
        return True
    is_sent = has_records or has_error or partition.must_send
    partition.must_send = has_error  # the end of an error is sent to the client as well
    session = scope.session
    if has_records and session is not None:
        found = session.partitions.pop(partition.topic_partition, None)
        if found is not None:
            session.partitions[partition.topic_partition] = found
    return is_sent


def _rotated(partitions: tuple[SessionPartition, ...], epoch: int) -> tuple[SessionPartition, ...]:
    """The partitions, beginning with another one at each epoch, so that a busy one does not use up the limits of all."""
    if not partitions:
        return ()
    first = epoch % len(partitions)
    return partitions[first:] + partitions[:first]
