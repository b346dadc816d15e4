"""One member of a classic group: what it told us, what it waits for, until when it counts as alive."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, Final

from bmq.protocol.group_records import GroupMetadataValue, MemberMetadata
from bmq.protocol.messages.join_group_request import JoinGroupRequestProtocol
from bmq.protocol.wire import STRING_BYTES_MAX

Caller = Any
"""Whoever waits for an answer; handed in with a request and handed back with its answer, never looked at."""

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata), most wanted first, every name once."""

NEVER_MS: Final = float("inf")


def made_member_id(name: str, uuid: str) -> str:
    """A member's id that begins with its client's or its instance's, as Kafka's do.

    Cut to what a string of the protocol may have: no request could carry a longer one, and neither it nor the rest of its
    group could be told of it.
    """
    room = STRING_BYTES_MAX - len(uuid) - 1
    return f"{name.encode()[:room].decode(errors='ignore')}-{uuid}"


def distinct_protocols(protocols: Iterable[JoinGroupRequestProtocol]) -> Protocols:
    """As the client listed them; of two with the same name the first counts."""
    named: dict[str, bytes] = {}
    for protocol in protocols:
        named.setdefault(protocol.name, bytes(protocol.metadata))
    return tuple(named.items())


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
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.join_caller: Caller = None
        self.sync_caller: Caller = None
        self.is_new = False
        self.deadline_ms: float = NEVER_MS

    @property
    def needs_no_heartbeat(self) -> bool:
        """Whether it waits for an answer of ours. A new member that waits can expire all the same: it may be gone."""
        return not self.is_new and (self.join_caller is not None or self.sync_caller is not None)

    def touch(self, loop_ms: float) -> None:
        """A sign of life: extend the session. The deadline only gets later, so no earlier wake-up is needed.

        A new member keeps its longer join deadline, and one that was loaded its first one, which reaches beyond a session
        for what a former owner may still tell it; a member without a deadline gets the next one with its answer.
        """
        deadline_ms = loop_ms + self.session_timeout_ms
        if not self.is_new and self.deadline_ms < deadline_ms:
            self.deadline_ms = deadline_ms

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it said for this protocol; empty if it does not speak it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: Container[str]) -> str | None:
        """The candidate it wants most."""
        return next((name for name, _ in self.protocols if name in candidates), None)

    def renamed(self, member_id: str) -> Member:
        """The same static member under a new member id, waiting for nothing."""
        return Member(
            member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.protocol_type,
            self.protocols,
            self.assignment,
        )

    @classmethod
    def from_record(cls, told: MemberMetadata, value: GroupMetadataValue) -> Member:
        """As a group's record keeps it: with the chosen protocol only, and waiting for nothing."""
        return cls(
            told.member_id,
            told.group_instance_id,
            told.client_id,
            told.client_host,
            told.session_timeout_ms if told.rebalance_timeout_ms < 0 else told.rebalance_timeout_ms,
            told.session_timeout_ms,
            value.protocol_type,
            ((value.protocol or "", told.subscription),),
            told.assignment,
        )

    def record(self, protocol_name: str | None, assignment: bytes) -> MemberMetadata:
        """What a group's record keeps of it."""
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
