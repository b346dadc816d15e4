"""One member of a classic group: its subscription, the requests it waits for, and its session deadline."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, Final

from bmq.coordinator.runtime.moment import NEVER_MS
from bmq.protocol.group_records import GroupMetadataValue, MemberMetadata
from bmq.protocol.messages.join_group_request import JoinGroupRequestProtocol
from bmq.protocol.wire import STRING_BYTES_MAX

Caller = Any
"""The waiting side of a request; passed in with the request, passed back with its answer, and never inspected."""

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata), most preferred first; names are unique."""


def made_member_id(name: str, uuid: str) -> str:
    """A member id that begins with the client id or instance id, as Kafka's do.

    Cut to the length of a protocol string: a longer id would fit into no request, and no answer could tell the member
    or the rest of its group.
    """
    room = STRING_BYTES_MAX - len(uuid) - 1
    return f"{name.encode()[:room].decode(errors='ignore')}-{uuid}"


def distinct_protocols(protocols: Iterable[JoinGroupRequestProtocol]) -> Protocols:
    """In the client's order; the first of two with the same name counts."""
    named: dict[str, bytes] = {}
    for protocol in protocols:
        named.setdefault(protocol.name, bytes(protocol.metadata))
    return tuple(named.items())


MEMBER_BYTES: Final = 500
"""Memory of a member besides its names and subscriptions, about."""
_PROTOCOL_BYTES: Final = 100


def protocols_bytes(protocols: Protocols) -> int:
    """Memory of these subscriptions."""
    return sum(len(name) + len(metadata) + _PROTOCOL_BYTES for name, metadata in protocols)


class Member:
    """A member that joined. `deadline_ms` is on the event loop's clock; the rest is Kafka's ClassicGroupMember."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "instance_id",
        "is_new",
        "join_caller",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_caller",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = b""
        self.join_caller: Caller = None
        self.sync_caller: Caller = None
        self.is_new = False
        self.deadline_ms: float = NEVER_MS

    @property
    def needs_no_heartbeat(self) -> bool:
        """Whether it waits for our answer. A new member that waits can still expire: it may be gone."""
        return not self.is_new and (self.join_caller is not None or self.sync_caller is not None)

    def touch(self, loop_ms: float) -> None:
        """Renew the session. The deadline only gets later, so no earlier wake-up is needed.

        A new member keeps its longer join deadline. A loaded member keeps its first one, which is longer than a session
        because a former owner may still renew it. A member without a deadline gets its next one with its answer.
        """
        deadline_ms = loop_ms + self.session_timeout_ms
        if not self.is_new and self.deadline_ms < deadline_ms:
            self.deadline_ms = deadline_ms

    @property
    def size_bytes(self) -> int:
        """Memory of what it said."""
        names = (self.member_id, self.instance_id or "", self.client_id, self.client_host)
        return MEMBER_BYTES + sum(map(len, names)) + protocols_bytes(self.protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for this protocol; empty if it does not support it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: Container[str]) -> str | None:
        """The candidate it prefers."""
        return next((name for name, _ in self.protocols if name in candidates), None)

    def renamed(self, member_id: str) -> Member:
        """The same static member under a new member id, with no waiting requests."""
        member = Member(
            member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.protocol_type,
            self.protocols,
        )
        member.assignment = self.assignment
        return member

    @classmethod
    def from_record(cls, saved: MemberMetadata, value: GroupMetadataValue) -> Member:
        """A member from a group's record: with the chosen protocol only, and no waiting requests."""
        member = cls(
            saved.member_id,
            saved.group_instance_id,
            saved.client_id,
            saved.client_host,
            saved.session_timeout_ms if saved.rebalance_timeout_ms < 0 else saved.rebalance_timeout_ms,
            saved.session_timeout_ms,
            value.protocol_type,
            ((value.protocol or "", saved.subscription),),
        )
        member.assignment = saved.assignment
        return member

    def record(self, protocol_name: str | None, assignment: bytes) -> MemberMetadata:
        """Its part of the group's record."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )
