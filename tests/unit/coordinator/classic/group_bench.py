"""A group with its runtime played by hand: time stands still until moved, the log answers when told to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from bmq.coordinator.classic.effects import Answer, Effects, GroupState, Joining, Persist
from bmq.coordinator.classic.group import Group
from bmq.coordinator.classic.member import distinct_protocols
from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.runtime.moment import Moment
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from bmq.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from bmq.protocol.messages.leave_group_request import MemberIdentity
from bmq.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

GROUP_ID = "group"
SESSION_MS = 10_000
REBALANCE_MS = 60_000


@dataclass
class Call:
    """Stands for the client that waits."""

    what: str
    responses: list[Any] = field(default_factory=list)

    @property
    def response(self) -> Any:
        assert len(self.responses) == 1, f"{self.what} was answered {len(self.responses)} times"
        return self.responses[0]

    @property
    def is_waiting(self) -> bool:
        return not self.responses

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.response.error_code)


def subscription(*topics: str) -> bytes:
    """A ConsumerProtocolSubscription v0."""
    out = bytearray(b"\0\0" + len(topics).to_bytes(4, "big"))
    for topic in topics:
        out += len(topic).to_bytes(2, "big") + topic.encode()
    return bytes(out + b"\xff\xff\xff\xff")


class GroupBench:
    """`log` holds what was written; `in_flight` what the log has not answered yet (`is_log_instant` answers at once)."""

    def __init__(self, *, is_log_instant: bool = True, **config: int) -> None:
        self.config = CoordinatorConfig(**config)  # type: ignore[arg-type]
        self.group = Group(GROUP_ID, self.config)
        self.now_ms = 1_000_000.0
        self.in_flight: deque[Persist] = deque()
        self.log: list[tuple[bytes, bytes]] = []
        self.calls: list[Call] = []
        self.is_log_instant = is_log_instant
        self._next_uuid = 0

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, 1_700_000_000_000 + int(self.now_ms))

    # ---------------------------------------------------------------- what clients do

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        instance_id: str | None = None,
        protocols: Iterable[tuple[str, bytes]] = (("range", b"r"), ("sticky", b"s")),
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client_id: str = "client",
    ) -> Call:
        request = JoinGroupRequest(
            group_id=GROUP_ID,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
        )
        call = self._call("join")
        self._next_uuid += 1
        joining = Joining(
            request, distinct_protocols(request.protocols), call, version, client_id, "/host", f"u{self._next_uuid}"
        )
        self.perform(self.group.join(joining, self.now))
        return call

    def join_known(self, **arguments: Any) -> Call:
        """As a client of v4 and later: first for a member id, then with it. The second call."""
        first = self.join(**arguments)
        assert first.error == ErrorCode.MEMBER_ID_REQUIRED
        return self.join(first.response.member_id, **arguments)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Call:
        request = SyncGroupRequest(
            group_id=GROUP_ID,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=data)
                for name, data in (assignments or {}).items()
            ],
        )
        call = self._call("sync")
        self.perform(self.group.sync(request, call, self.now))
        return call

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        return self.group.heartbeat(member_id, instance_id, generation, self.now_ms)

    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        leaving = [MemberIdentity(member_id=name, group_instance_id=instance_id) for name, instance_id in members]
        responses, effects = self.group.leave(leaving, self.now)
        self.perform(effects)
        return [ErrorCode(response.error_code) for response in responses]

    # ---------------------------------------------------------------- the world

    def pass_time(self, by_ms: float) -> None:
        """Move the clock, waking the group whenever it asked to be."""
        until_ms = self.now_ms + by_ms
        idle_wakes = 0
        while self.group.wake_ms <= until_ms:
            idle_wakes = idle_wakes + 1 if self.group.wake_ms <= self.now_ms else 0
            assert idle_wakes <= 3, "the group asks to be woken for what is over, again and again"
            self.now_ms = max(self.now_ms, self.group.wake_ms)
            self.perform(self.group.tick(self.now))
        self.now_ms = until_ms

    def make_durable(self) -> None:
        """The oldest write in flight is in the log."""
        persist = self.in_flight.popleft()
        key, value = encode_key(GroupMetadataKey(group=GROUP_ID)), encode_value(persist.value)
        self.log.append((key, value))
        told = decode_value(decode_key(key), value)
        assert isinstance(told, GroupMetadataValue)
        self.perform(self.group.replay(told, self.now))
        self.perform(self.group.answer_replaced_member(persist, self.now))

    def refuse(self, error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> None:
        """The oldest write in flight was not written."""
        self.perform(self.group.persist_failed(self.in_flight.popleft(), error, self.now))

    def perform(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                effect.caller.responses.append(effect.response)
            else:
                self.in_flight.append(effect)
        while self.is_log_instant and self.in_flight:
            self.make_durable()

    def restarted(self) -> Group:
        """The group as another server would load it."""
        group = Group(GROUP_ID, self.config)
        if self.log:
            key, value = self.log[-1]
            told = decode_value(decode_key(key), value)
            assert isinstance(told, GroupMetadataValue)
            group.load(told, self.now)
        return group

    # ---------------------------------------------------------------- short stories

    def stable(self, count: int = 2, **arguments: Any) -> list[str]:
        """A stable group of dynamic members, the leader first; their ids."""
        joins = [self.join_known(**arguments) for _ in range(count)]
        while self.group.state is GroupState.PREPARING_REBALANCE:
            self.pass_time(self.config.group_initial_rebalance_delay_ms)
        return self.synced([call.response.member_id for call in joins])

    def synced(self, ids: list[str]) -> list[str]:
        """All of these fetch their assignments, the leader last; the leader first."""
        generation, leader = self.group.generation, self.group.members.leader_id
        assert leader is not None
        followers = [name for name in ids if name != leader]
        calls = [self.sync(name, generation) for name in followers]
        calls.append(self.sync(leader, generation, {name: f"{generation}/{name}".encode() for name in ids}))
        assert [call.error for call in calls] == [ErrorCode.NONE] * len(ids)
        assert self.group.state is GroupState.STABLE
        return [leader, *followers]

    def _call(self, what: str) -> Call:
        self.calls.append(Call(what))
        return self.calls[-1]


def durable_picture(group: Group) -> dict[str, Any]:
    """What of a group must survive a restart while it is Stable or Empty."""
    return {
        "state": group.state,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.members.leader_id,
        "since": group.state_since_ms,
        "static": dict(group.members.static_ids),
        "topics": group.topics,
        "members": {
            m.member_id: (
                m.instance_id,
                m.client_id,
                m.client_host,
                m.session_timeout_ms,
                m.rebalance_timeout_ms,
                m.metadata(group.protocol_name),
                m.assignment,
            )
            for m in group.members
        },
    }
