"""One classic consumer group: Empty -> PreparingRebalance -> CompletingRebalance -> Stable. Decisions only.

Every method takes the time as an argument and returns effects, in order; runtime.py performs them. The rules are those
of Apache Kafka's ClassicGroup and GroupMetadataManager (4.x).

Empty                no members; its offsets expire some time after it became empty
PreparingRebalance   members (re)join until all have, or the longest rebalance timeout is over
CompletingRebalance  all members know the new generation; wait for the leader's assignment, then write it to the log
Stable               the assignment is durable and handed out
Dead                 the shard is gone; every answer sends the client to find the coordinator again

Only `replay` sets the durable state (`written`: members, their subscriptions and assignments, generation, leader), live
and after a restart alike. Waiting callers, pending members and deadlines are in memory only, as in Kafka: after a
restart a group is what its last record says, and each member has one session timeout to return.

Deadlines instead of timers: a heartbeat only moves its member's deadline. `wake_ms` is never later than the earliest
deadline; `tick` at or after it handles what is due and finds the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.coordinator.classic.effects import (
    Answer,
    Effects,
    GroupState,
    Joining,
    Persist,
    Replacement,
    answer_sync,
    join_error,
    roster_for_leader,
    sync_error,
)
from bmq.coordinator.classic.member import Caller, Member, Protocols, made_member_id
from bmq.coordinator.classic.request_checks import check_member, check_sync
from bmq.coordinator.classic.roster import Roster
from bmq.coordinator.classic.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.runtime.moment import NEVER_MS, Moment
from bmq.coordinator.runtime.recent_proof import sessions_from_ms
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.group_records import GroupMetadataValue
from bmq.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from bmq.protocol.messages.leave_group_request import MemberIdentity
from bmq.protocol.messages.leave_group_response import MemberResponse
from bmq.protocol.messages.sync_group_request import SyncGroupRequest
from bmq.protocol.messages.sync_group_response import SyncGroupResponse

ABSENT_PATIENCE_MS_MIN: Final = 1_000
CLASSIC: Final = "classic"
"""The group type."""


class Group:
    """See the module. Not to be shared between threads or shards."""

    def __init__(self, group_id: str, config: CoordinatorConfig) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.state_since_ms = -1  # wall clock
        self.members = Roster()
        self.topics: frozenset[str] | None = None  # None: not known
        self.written: GroupMetadataValue | None = None
        self.wake_ms: float = NEVER_MS
        self.rebalance_count = 0
        self._config = config
        self._unsynced: set[str] = set()
        self._join_deadline_ms: float = NEVER_MS
        self._sync_deadline_ms: float = NEVER_MS
        self._initial_delay_ms: float = 0
        self._initial_remaining_ms: float = 0
        self._is_initial = False
        self._has_new_member = False
        self._writing_generation = -1

    def join(self, joining: Joining, now: Moment) -> Effects:
        """A JoinGroup, answered by one of the effects, now or later. The caller has checked the timeout's bounds."""
        request, caller = joining.request, joining.caller
        member_id = request.member_id
        if self.state is GroupState.DEAD:
            return [Answer(caller, join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id))]
        if not self._accepts(member_id):
            effects = self._remove(member_id)
            return [*effects, Answer(caller, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))]
        if not self._supports(request.protocol_type, joining.protocols):
            return [Answer(caller, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))]
        if not member_id:
            return self._join_new(joining, now)
        if member_id in self.members.pending:
            if request.group_instance_id is not None:
                return [Answer(caller, join_error(ErrorCode.UNKNOWN_MEMBER_ID, member_id))]
            return self._add_then_rebalance(member_id, joining, now)
        return self._rejoin(joining, now)

    def sync(self, request: SyncGroupRequest, caller: Caller, now: Moment) -> Effects:
        """A SyncGroup, answered by one of the effects, now or when the leader's assignment is durable."""
        if not self.members and self.state is GroupState.EMPTY:
            return [Answer(caller, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))]
        error = check_sync(self, request)
        if error is ErrorCode.NONE and self.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE:
            return [Answer(caller, sync_error(error))]
        member = self.members.by_id[request.member_id]
        self._unsynced.discard(request.member_id)
        if not self._unsynced:
            self._sync_deadline_ms = NEVER_MS
        if self.state is GroupState.STABLE:
            return [Answer(caller, self._assignment_of(member))]
        effects = answer_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_caller = caller
        # The leader may retry while its assignment is being written: it then waits like the other members.
        if request.member_id == self.members.leader_id and self._writing_generation != self.generation:
            self._writing_generation = self.generation
            assignments = {part.member_id: bytes(part.assignment) for part in request.assignments}
            effects.append(Persist(self._value(now.wall_ms, assignments)))
        return effects

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, loop_ms: float) -> ErrorCode:
        """A heartbeat: only the member's deadline changes."""
        member = self.members.get(member_id)
        if member is None or instance_id is not None or self.state is GroupState.DEAD:
            error = check_member(self, member_id, instance_id)
            if error is not ErrorCode.NONE:
                return error
            member = self.members.by_id[member_id]
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        member.touch(loop_ms)
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, leaving: Sequence[MemberIdentity], now: Moment) -> tuple[list[MemberResponse], Effects]:
        """A LeaveGroup of one or more members; static ones may be named by instance id alone."""
        responses: list[MemberResponse] = []
        effects: Effects = []
        has_left = False
        for identity in leaving:
            member_id, instance_id = identity.member_id, identity.group_instance_id
            error = ErrorCode.NONE
            if self.state is GroupState.DEAD:
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            elif not member_id:
                known = None if instance_id is None else self.members.static_ids.get(instance_id)
                if known is None:
                    error = ErrorCode.UNKNOWN_MEMBER_ID
                else:
                    effects += self._remove(known)
            elif member_id in self.members.pending:
                self.members.expect_no_more(member_id)
            else:
                error = check_member(self, member_id, instance_id)
                if error is ErrorCode.NONE:
                    effects += self._remove(member_id)
            has_left = has_left or error is ErrorCode.NONE
            responses.append(MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=error))
        if has_left:
            effects += self._after_removal(now)
        return responses, effects

    def tick(self, now: Moment) -> Effects:
        """Handle what is due and set `wake_ms` anew."""
        effects: Effects = []
        if self._sync_deadline_ms <= now.loop_ms:
            effects += self._expire_syncs(now)
        if self._join_deadline_ms <= now.loop_ms:
            effects += self._join_time_is_over(now)
        for member in [m for m in self.members if m.deadline_ms <= now.loop_ms]:
            if self.members.get(member.member_id) is not member or member.deadline_ms > now.loop_ms:
                continue  # an earlier member's expiry removed or renewed it
            if member.needs_no_heartbeat:
                member.deadline_ms = NEVER_MS  # set again when it gets its answer
            else:
                effects += self._remove(member.member_id)
                if self.state is GroupState.PREPARING_REBALANCE and self.members.has_everybody_joined():
                    effects += self._complete_join(now)
                else:
                    effects += self._after_removal(now)
        for member_id in [m for m, deadline_ms in self.members.pending.items() if deadline_ms <= now.loop_ms]:
            self.members.expect_no_more(member_id)
            if self.state is GroupState.PREPARING_REBALANCE and self.members.has_everybody_joined():
                effects += self._complete_join(now)
        self.wake_ms = min(
            self._join_deadline_ms,
            self._sync_deadline_ms,
            min((member.deadline_ms for member in self.members), default=NEVER_MS),
            min(self.members.pending.values(), default=NEVER_MS),
        )
        return effects

    def after_stall(self, loop_ms: float) -> None:
        """This process was stalled and members' requests were dropped: restart every wait, as after a failover.

        The delay before a first rebalance is not restarted. Deadlines only move back, so `wake_ms` stays right.
        """
        for member in self.members:
            member.touch(loop_ms)
        until_ms = loop_ms + self.members.rebalance_timeout_ms()
        if self._join_deadline_ms != NEVER_MS and not self._is_initial:
            self._join_deadline_ms = max(self._join_deadline_ms, until_ms)
        if self._sync_deadline_ms != NEVER_MS:
            self._sync_deadline_ms = max(self._sync_deadline_ms, until_ms)
        pending_until_ms = loop_ms + self._config.group_min_session_timeout_ms
        for member_id, deadline_ms in self.members.pending.items():
            self.members.pending[member_id] = max(deadline_ms, pending_until_ms)

    def _wake_by(self, deadline_ms: float) -> float:
        if deadline_ms < self.wake_ms:
            self.wake_ms = deadline_ms
        return deadline_ms

    def replay(self, value: GroupMetadataValue, now: Moment) -> Effects:
        """`value` is durable: the sync that wrote it is complete."""
        self.written = value
        if (
            self.state is not GroupState.COMPLETING_REBALANCE
            or value.generation != self.generation
            or not value.members
        ):
            return []  # the group has moved on: its next record holds the assignments
        assignments = {member.member_id: member.assignment for member in value.members}
        for member in self.members:
            member.assignment = assignments.get(member.member_id, b"")
        self._enter(GroupState.STABLE, now)
        self.state_since_ms = value.current_state_timestamp_ms
        self.rebalance_count += 1
        effects: Effects = []
        for member in self.members:
            if member.sync_caller is not None:
                effects += answer_sync(member, self._assignment_of(member))
                member.deadline_ms = self._wake_by(now.loop_ms + member.session_timeout_ms)
        return effects

    def load(self, value: GroupMetadataValue, now: Moment) -> Effects:
        """Restore the group from its last record, after a failover or a restart."""
        self.written = value
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.state = GroupState.STABLE if value.members else GroupState.EMPTY
        for stored in value.members:
            member = Member.from_record(stored, value)
            self._add(member)
            member.deadline_ms = self._wake_by(sessions_from_ms(now.loop_ms) + member.session_timeout_ms)
        self.members.leader_id = value.leader if value.leader in self.members else next(iter(self.members.by_id), None)
        self.topics = self._subscribed_topics()
        self.state_since_ms = value.current_state_timestamp_ms
        # Over the limit (it was lowered): rebalance, so that members can commit before some of them are refused.
        return self._prepare_rebalance(now) if len(self.members) > self._config.group_max_size else []

    def answer_replaced_member(self, persist: Persist, now: Moment) -> Effects:
        """`persist.value` was written and replayed: answer a static member that came back."""
        replacement = persist.replacement
        member = None if replacement is None else self.members.get(replacement.new_member_id)
        if replacement is None or member is None or member.join_caller is None:
            return []
        member.deadline_ms = self._wake_by(now.loop_ms + member.session_timeout_ms)
        is_leader = self.members.leader_id == member.member_id
        # Before v9 a leader cannot be told to skip assigning, so it is told that another one leads (KIP-814).
        shows_leader = replacement.can_skip_assignment
        response = JoinGroupResponse(
            member_id=member.member_id,
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=(self.members.leader_id if shows_leader else replacement.leader_before) or "",
            skip_assignment=is_leader and shows_leader,
            members=roster_for_leader(self.members, self.protocol_name) if is_leader and shows_leader else (),
        )
        return self._answer_join(member, response)

    def persist_failed(self, persist: Persist, error: ErrorCode, now: Moment) -> Effects:
        """The log refused `persist.value`: nothing of it is durable. The next generation's record will replace it."""
        effects: Effects = []
        replacement = persist.replacement
        if replacement is not None:
            member = self.members.get(replacement.new_member_id)
            if member is not None:
                effects += self._answer_join(member, join_error(error, ""))
                member.deadline_ms = self._wake_by(now.loop_ms + member.session_timeout_ms)
        elif persist.value.generation == self._writing_generation:
            self._writing_generation = -1
        if persist.value.generation != self.generation:
            return effects
        if self.state is GroupState.COMPLETING_REBALANCE:
            effects += self._fail_syncs(error, now)
        # Kafka restores the static member's old member id instead. But another member may have changed meanwhile, and a
        # rebalance leads from any state to one that is written.
        return effects if self.state is GroupState.EMPTY else effects + self._rebalance_or_complete(now)

    def removed(self) -> None:
        """A tombstone is durable: the group has no record any more. Members that joined meanwhile stay."""
        self.written = None

    def unload(self, error: ErrorCode) -> Effects:
        """The shard is gone; answer all waiting callers with `error`."""
        effects: Effects = []
        for member in self.members:
            effects += self._answer_join(member, join_error(error, member.member_id))
            effects += answer_sync(member, sync_error(error))
        self.state = GroupState.DEAD
        self.wake_ms = NEVER_MS
        return effects

    def rebalance(self, now: Moment) -> Effects:
        """Make all members rejoin: the group was of another kind until now."""
        return self._prepare_rebalance(now) if self.state is GroupState.STABLE else []

    @property
    def may_expire_offsets(self) -> bool:
        """False while members come and go, or when their subscriptions are unknown (KIP-211)."""
        if self.protocol_type is None or self.state is GroupState.EMPTY:
            return True
        return self.state is GroupState.STABLE and self.topics is not None

    @property
    def empty_since_ms(self) -> int | None:
        """Start of its offsets' retention, by the wall clock; None: retention counts from each commit."""
        is_empty = self.protocol_type is not None and self.state is GroupState.EMPTY
        return self.state_since_ms if is_empty and self.state_since_ms >= 0 else None

    @property
    def is_unused(self) -> bool:
        """Whether it can be forgotten without loss: never written, no members, none pending."""
        return self.written is None and not self.members and not self.members.pending

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """Also True when it is a consumer group whose subscriptions are unknown."""
        return self.uses_consumer_protocol if self.topics is None else topic in self.topics

    def _join_new(self, joining: Joining, now: Moment) -> Effects:
        instance_id = joining.request.group_instance_id
        if instance_id is not None:
            new_id = made_member_id(instance_id, joining.new_member_uuid)
            old_id = self.members.static_ids.get(instance_id)
            if old_id is not None:
                return self._replace_static(old_id, new_id, joining, now)
            return self._add_then_rebalance(new_id, joining, now)
        new_id = made_member_id(joining.client_id, joining.new_member_uuid)
        if joining.api_version >= 4:
            if len(self.members.pending) >= self._config.group_pending_members_max:
                return [Answer(joining.caller, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))]
            # KIP-394: hand out a member id first, so that a client's retries do not each leave a ghost member behind.
            self.members.expect(new_id, self._wake_by(now.loop_ms + joining.request.session_timeout_ms))
            return [Answer(joining.caller, join_error(ErrorCode.MEMBER_ID_REQUIRED, new_id))]
        return self._add_then_rebalance(new_id, joining, now)

    def _add_then_rebalance(self, member_id: str, joining: Joining, now: Moment) -> Effects:
        member = joining.member(member_id)
        if self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY:
            self._has_new_member = True
        self._add(member)
        self.members.wait(member, joining.caller)
        # It sends no heartbeats before JoinGroup is answered; if it is gone it must not hold up rebalances for ever.
        member.deadline_ms = self._wake_by(now.loop_ms + self._config.group_new_member_join_timeout_ms)
        return self._rebalance_or_complete(now)

    def _rejoin(self, joining: Joining, now: Moment) -> Effects:
        request, caller = joining.request, joining.caller
        member_id = request.member_id
        error = check_member(self, member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return [Answer(caller, join_error(error, member_id))]
        member = self.members.by_id[member_id]
        if self.state is GroupState.EMPTY:
            return [Answer(caller, join_error(ErrorCode.UNKNOWN_MEMBER_ID, member_id))]
        is_leader = member_id == self.members.leader_id
        is_changed = member.protocols != joining.protocols
        is_again = self.state is GroupState.STABLE and is_leader
        if self.state is GroupState.PREPARING_REBALANCE or is_changed or is_again:
            # A leader that rejoins a stable group wants new assignments, for example because of new partitions.
            effects = self._update(member, joining, now)
            return effects + self._rebalance_or_complete(now)
        # Most likely our answer to its last JoinGroup was lost: repeat it.
        shows_members = is_leader and self.state is GroupState.COMPLETING_REBALANCE
        roster = roster_for_leader(self.members, self.protocol_name) if shows_members else ()
        return [Answer(caller, self._joined(member, roster))]

    def _replace_static(self, old_id: str, new_id: str, joining: Joining, now: Moment) -> Effects:
        old = self.members.by_id[old_id]
        leader_before = self.members.leader_id
        effects = self._swap(old, new_id)
        member = self.members.by_id[new_id]
        effects += self._update(member, joining, now)
        member.deadline_ms = self._wake_by(now.loop_ms + member.session_timeout_ms)
        if self.state is GroupState.STABLE:
            if self.members.select_protocol() != self.protocol_name:
                return effects + self._rebalance_or_complete(now)
            # Its assignment stays valid: only the new member id has to be written (KIP-345).
            assignments = {m.member_id: m.assignment for m in self.members}
            self.topics = self._subscribed_topics()
            replacement = Replacement(new_id, joining.api_version >= 9, leader_before)
            return [*effects, Persist(self._value(self.state_since_ms, assignments), replacement)]
        if self.state is GroupState.COMPLETING_REBALANCE:
            # The leader may already be assigning to the old member id, leaving this member without partitions.
            return effects + self._prepare_rebalance(now)
        return effects + self._complete_if_everybody_joined(now)

    def _swap(self, old: Member, new_id: str) -> Effects:
        """Give a static member a new member id; callers that wait under the old one are fenced."""
        effects = self._answer_join(old, join_error(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
        effects += answer_sync(old, sync_error(ErrorCode.FENCED_INSTANCE_ID))
        self.members.rename(old, new_id)
        if old.member_id in self._unsynced:
            self._unsynced.remove(old.member_id)
            self._unsynced.add(new_id)
        return effects

    def _accepts(self, member_id: str) -> bool:
        size_max = self._config.group_max_size
        if self.state is GroupState.PREPARING_REBALANCE:
            # Waiting members are already in; counting only those lets an oversized group shrink to its limit.
            member = self.members.get(member_id)
            return (member is not None and member.join_caller is not None) or self.members.waiting_count < size_max
        if self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return member_id in self.members or len(self.members) < size_max
        return True

    def _rebalance_or_complete(self, now: Moment) -> Effects:
        if self.state in (GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self._prepare_rebalance(now)
        return self._complete_if_everybody_joined(now)

    def _prepare_rebalance(self, now: Moment) -> Effects:
        effects: Effects = []
        if self.state is GroupState.COMPLETING_REBALANCE:
            effects += self._fail_syncs(ErrorCode.REBALANCE_IN_PROGRESS, now)
        self._unsynced.clear()
        self._sync_deadline_ms = NEVER_MS
        self._is_initial = self.state is GroupState.EMPTY
        if self._is_initial:
            # A new group's members arrive one after another: wait a little so that they share the first generation.
            delay_ms = self._config.group_initial_rebalance_delay_ms
            self._initial_delay_ms = delay_ms
            self._initial_remaining_ms = max(self.members.rebalance_timeout_ms() - delay_ms, 0)
            self._has_new_member = False
            self._join_deadline_ms = self._wake_by(now.loop_ms + delay_ms)
            self._enter(GroupState.PREPARING_REBALANCE, now)
            return effects
        self._enter(GroupState.PREPARING_REBALANCE, now)
        if self.members.has_everybody_joined():
            return effects + self._complete_join(now)
        self._join_deadline_ms = self._wake_by(now.loop_ms + self.members.rebalance_timeout_ms())
        return effects

    def _complete_if_everybody_joined(self, now: Moment) -> Effects:
        if self.previous_state is not GroupState.EMPTY and self.members.has_everybody_joined():
            return self._complete_join(now)
        return []

    def _join_time_is_over(self, now: Moment) -> Effects:
        if self._is_initial and self._has_new_member and self._initial_remaining_ms > 0:
            self._has_new_member = False
            delay_ms = min(self._config.group_initial_rebalance_delay_ms, self._initial_remaining_ms)
            self._initial_remaining_ms = max(self._initial_remaining_ms - self._initial_delay_ms, 0)
            self._initial_delay_ms = delay_ms
            self._join_deadline_ms = self._wake_by(now.loop_ms + delay_ms)
            return []
        return self._complete_join(now)

    def _complete_join(self, now: Moment) -> Effects:
        self._join_deadline_ms = NEVER_MS
        effects: Effects = []
        # An absent static member keeps its place until its session ends; a dynamic member has to rejoin each time.
        for absent in [m for m in self.members if m.join_caller is None and m.instance_id is None]:
            effects += self._remove(absent.member_id)
        if len(self.members) and not self.members.elect_leader():
            # Only static members, all absent. Their rebalance timeout may be 0, which must not become a busy loop.
            patience_ms = max(self.members.rebalance_timeout_ms(), ABSENT_PATIENCE_MS_MIN)
            self._join_deadline_ms = self._wake_by(now.loop_ms + patience_ms)
            return effects
        self.generation += 1
        self._unsynced.clear()
        self._is_initial = False
        if not self.members:
            self.protocol_name = None
            self.topics = self._subscribed_topics()
            self._enter(GroupState.EMPTY, now)
            return [*effects, Persist(self._value(now.wall_ms, {}))]
        self.protocol_name = self.members.select_protocol()
        self.topics = self._subscribed_topics()
        self._enter(GroupState.COMPLETING_REBALANCE, now)
        roster = roster_for_leader(self.members, self.protocol_name)
        for member in self.members:
            member.is_new = False
            member.deadline_ms = self._wake_by(now.loop_ms + member.session_timeout_ms)
            self._unsynced.add(member.member_id)
            if member.join_caller is not None:
                members = roster if member.member_id == self.members.leader_id else ()
                effects += self._answer_join(member, self._joined(member, members))
        self._sync_deadline_ms = self._wake_by(now.loop_ms + self.members.rebalance_timeout_ms())
        return effects

    def _expire_syncs(self, now: Moment) -> Effects:
        """Remove the members that sent no SyncGroup in time, and rebalance the others."""
        self._sync_deadline_ms = NEVER_MS
        if not self._unsynced or self.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return []
        effects: Effects = []
        for member_id in list(self._unsynced):
            effects += self._remove(member_id)
        return effects + self._prepare_rebalance(now)

    def _fail_syncs(self, error: ErrorCode, now: Moment) -> Effects:
        """Refuse the waiting SyncGroups.

        Kafka also clears the assignments. Cooperative members still have them, and an upgrade to a consumer group must
        know that.
        """
        effects: Effects = []
        for member in self.members:
            if member.sync_caller is not None:
                effects += answer_sync(member, sync_error(error))
                member.deadline_ms = self._wake_by(now.loop_ms + member.session_timeout_ms)
        return effects

    def _after_removal(self, now: Moment) -> Effects:
        return [] if self.state is GroupState.EMPTY else self._rebalance_or_complete(now)

    def _add(self, member: Member) -> None:
        if not len(self.members):
            self.protocol_type = member.protocol_type
        self.members.add(member)

    def _update(self, member: Member, joining: Joining, now: Moment) -> Effects:
        request = joining.request
        self.members.change(member, joining.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        if not member.is_new:  # its session may have become shorter
            member.deadline_ms = self._wake_by(now.loop_ms + member.session_timeout_ms)
        earlier = self.members.wait(member, joining.caller)
        if earlier is None:
            return []
        return [Answer(earlier, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))]

    def _remove(self, member_id: str) -> Effects:
        """Remove a member, answering its waiting requests; it may join again."""
        effects: Effects = []
        member = self.members.get(member_id)
        if member is not None:
            effects += self._answer_join(member, join_error(ErrorCode.UNKNOWN_MEMBER_ID, ""))
            effects += answer_sync(member, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        self.members.remove(member_id)
        self._unsynced.discard(member_id)
        return effects

    def _answer_join(self, member: Member, response: JoinGroupResponse) -> Effects:
        caller = self.members.stop_waiting(member)
        return [] if caller is None else [Answer(caller, response)]

    def _supports(self, protocol_type: str, protocols: Protocols) -> bool:
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and self.members.has_common_protocol(protocols)

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol or (self.members and self.protocol_name is None):
            return None
        return subscribed_topics(member.metadata(self.protocol_name) for member in self.members)

    def _enter(self, state: GroupState, now: Moment) -> None:
        self.previous_state, self.state = self.state, state
        self.state_since_ms = now.wall_ms

    def _joined(self, member: Member, members: Sequence[JoinGroupResponseMember]) -> JoinGroupResponse:
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.members.leader_id or "",
            member_id=member.member_id,
            members=members,
        )

    def _assignment_of(self, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment
        )

    def _value(self, state_since_ms: int, assignments: dict[str, bytes]) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.members.leader_id,
            current_state_timestamp_ms=state_since_ms,
            members=tuple(m.record(self.protocol_name, assignments.get(m.member_id, b"")) for m in self.members),
        )
