"""AlterShareGroupOffsets and DeleteShareGroupOffsets (KIP-932): which partitions of a group get other state, or lose it.
Decisions only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from bmq.coordinator.share_membership.draft import ShareDraft
from bmq.coordinator.share_membership.share_group import StateTopics
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError


class Altered(NamedTuple):
    """`state_epoch`: the group's epoch, of which the state is."""

    state_epoch: int


def alter(draft: ShareDraft, topics: StateTopics) -> Altered:
    """The state of these partitions begins anew; the group is created if there is none.

    Raises KafkaError GROUP_ID_NOT_FOUND (a group of another type has this id), NON_EMPTY_GROUP.
    """
    if draft.group is None:
        if draft.is_taken or draft.classic is not None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {draft.group_id} is not a share group.")
        draft.create()
    group = draft.existing
    require_empty(draft)
    states = group.states.beginning(topics)
    if states != group.states:
        draft.write_states(states)
    return Altered(group.epoch)


def require_empty(draft: ShareDraft) -> None:
    """Raises KafkaError GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
    if draft.existing.members:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Group {draft.group_id} is not empty.")


def with_state(draft: ShareDraft, topics: Iterable[UUID]) -> Mapping[UUID, bool]:
    """Whether each of these topics has state that can be deleted. Raises KafkaError GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
    require_empty(draft)
    states = draft.existing.states
    return {one: bool(states.known(one)) or one in states.deleting for one in topics}


def all_topics(draft: ShareDraft) -> Mapping[UUID, str]:
    """All topics of which an empty group may have state. Raises KafkaError GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
    require_empty(draft)
    states = draft.existing.states
    names = {one: topic.name for topics in (states.initializing, states.initialized) for one, topic in topics.items()}
    return {**states.deleting, **names}
