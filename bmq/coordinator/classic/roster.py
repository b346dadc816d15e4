"""The members of one classic group as a set: leader, common protocols, members waiting in JoinGroup, pending members.

Keeps counters so that each question is cheap in a group of thousands. Knows no states, times or answers.
"""

from __future__ import annotations

from collections.abc import Iterator

from bmq.coordinator.classic.member import MEMBER_BYTES, Caller, Member, Protocols, protocols_bytes
from bmq.protocol.error_codes import ErrorCode


class Roster:
    """Members by id, in order of arrival. `pending`: member ids given out and not joined yet -> deadline."""

    def __init__(self) -> None:
        self.by_id: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}  # group instance id -> member id
        self.pending: dict[str, float] = {}
        self.leader_id: str | None = None
        self.waiting_count = 0  # members whose JoinGroup waits
        self.held_bytes = 0  # memory of what members, pending ones too, have said
        self._speakers: dict[str, int] = {}  # protocol name -> number of members that support it

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.by_id.values())

    def __contains__(self, member_id: object) -> bool:
        return member_id in self.by_id

    def get(self, member_id: str | None) -> Member | None:
        return None if member_id is None else self.by_id.get(member_id)

    def known(self, member_id: str, instance_id: str | None) -> Member | None:
        """The member of this id, or the static one of this instance id."""
        return self.get(member_id) or self.get(self.static_ids.get(instance_id or ""))

    def check(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """NONE for a member; FENCED_INSTANCE_ID if another member has taken its instance id (KIP-345)."""
        if instance_id is not None:
            known = self.static_ids.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.by_id else ErrorCode.UNKNOWN_MEMBER_ID

    def add(self, member: Member) -> None:
        """Add a member; the first one leads until a rebalance elects another."""
        self.by_id[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.expect_no_more(member.member_id)
        self._count(member.protocols, 1)
        self.held_bytes += member.size_bytes

    def expect(self, member_id: str, deadline_ms: float) -> None:
        """This member id was given out."""
        if member_id not in self.pending:
            self.held_bytes += _pending_bytes(member_id)
        self.pending[member_id] = deadline_ms

    def expect_no_more(self, member_id: str) -> None:
        """Its member has joined, or will not."""
        if self.pending.pop(member_id, None) is not None:
            self.held_bytes -= _pending_bytes(member_id)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member, pending or not; if it led, the next in order does. Answer its requests first."""
        self.expect_no_more(member_id)
        member = self.by_id.pop(member_id, None)
        if member is None:
            return None
        self.held_bytes -= member.size_bytes
        self._count(member.protocols, -1)
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.by_id), None)
        return member

    def rename(self, old: Member, new_id: str) -> Member:
        """A static member came back under a new member id; it leads if it did before. Answer its requests first."""
        member = old.renamed(new_id)
        self.held_bytes += member.size_bytes - old.size_bytes
        del self.by_id[old.member_id]
        self.by_id[new_id] = member
        if self.leader_id == old.member_id:
            self.leader_id = new_id
        if old.instance_id is not None:
            self.static_ids[old.instance_id] = new_id
        return member

    def change(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        self._count(member.protocols, -1)
        self.held_bytes += protocols_bytes(protocols) - protocols_bytes(member.protocols)
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._count(protocols, 1)

    def wait(self, member: Member, caller: Caller) -> Caller:
        """`caller` waits for the next generation; returns the caller that waited for this member before, if any."""
        earlier, member.join_caller = member.join_caller, caller
        if earlier is None:
            self.waiting_count += 1
        return earlier

    def stop_waiting(self, member: Member) -> Caller:
        """The caller that waited in this member's JoinGroup, if any."""
        caller, member.join_caller = member.join_caller, None
        if caller is not None:
            self.waiting_count -= 1
        return caller

    def has_everybody_joined(self) -> bool:
        return self.waiting_count == len(self.by_id) and not self.pending

    def elect_leader(self) -> bool:
        """Keep the leader if it joined, else take the first member that did. False: none did."""
        leader = self.get(self.leader_id)
        if leader is not None and leader.join_caller is not None:
            return True
        joined = next((m.member_id for m in self.by_id.values() if m.join_caller is not None), None)
        if joined is None:
            return False
        self.leader_id = joined
        return True

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((member.rebalance_timeout_ms for member in self.by_id.values()), default=0)

    def has_common_protocol(self, protocols: Protocols) -> bool:
        """Whether all members support one of these."""
        return any(self._speakers.get(name, 0) == len(self.by_id) for name, _ in protocols)

    def select_protocol(self) -> str | None:
        """Return the protocol that most members prefer among those all support; ties go to the first voted for."""
        candidates = {name for name, count in self._speakers.items() if count == len(self.by_id)}
        votes: dict[str, int] = {}
        for member in self.by_id.values():
            choice = member.vote(candidates)
            if choice is not None:
                votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__, default=None)

    def _count(self, protocols: Protocols, by: int) -> None:
        for name, _ in protocols:
            count = self._speakers.get(name, 0) + by
            if count:
                self._speakers[name] = count
            else:
                self._speakers.pop(name, None)


def _pending_bytes(member_id: str) -> int:
    return MEMBER_BYTES + len(member_id)
