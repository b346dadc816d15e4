"""Commit plans: what stays the same when a group commits the same partitions again (topics, record templates, answer).

Groups commit the same partitions again and again, and only the numbers change. A plan is valid while its topics are
unchanged. Decisions only.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import error as struct_error
from typing import Final, NamedTuple

from bmq.coordinator.topics import Topic, Topics, find_topic
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.hot_commit import PlainCommit, PlainTopic, encode_answer, name_of, topic_id_of
from bmq.protocol.offset_records import OffsetRecords

PLANS_BYTES_MAX: Final = 32 * 1024 * 1024
_PLAN_BYTES: Final = 2_048
_PARTITION_BYTES: Final = 1_024
"""Estimates: templates of two lengths, each with the group's and the topic's name; keys; the objects around them."""


class PlannedTopic(NamedTuple):
    """`indexes`: partitions that the topic has."""

    topic: Topic
    indexes: tuple[int, ...]
    records: OffsetRecords


class CommitPlan:
    """The partitions that a commit of a group names, without their offsets. `size_bytes`: of all keys and values."""

    __slots__ = ("_api_version", "_asked", "answer", "group_id", "partitions", "size_bytes", "topics")

    def __init__(self, asked: PlainCommit, topics: tuple[PlannedTopic, ...]) -> None:
        self._api_version = asked.api_version
        self._asked: tuple[PlainTopic, ...] = asked.topics
        self.group_id = asked.group_id
        self.topics = topics
        self.partitions = [(part.topic.name, index) for part in topics for index in part.indexes]
        self.size_bytes = sum(part.records.size_bytes for part in topics)
        self.answer = self.answer_of(ErrorCode.NONE)

    def answer_of(self, code: ErrorCode) -> bytes:
        """The body of the answer that gives every partition this code."""
        return encode_answer(self._api_version, self._asked, code)

    def topic_partitions(self) -> Iterator[tuple[Topic, int]]:
        return ((part.topic, index) for part in self.topics for index in part.indexes)

    def is_of(self, topics: Topics) -> bool:
        """Whether all its topics are unchanged."""
        current = topics.topics
        for topic, _, _ in self.topics:  # noqa: SIM110  (three times as fast, in every commit)
            if current.get(topic.name) is not topic:
                return False
        return True


class CommitPlans:
    """The plans made last; `size_bytes` of them, up to PLANS_BYTES_MAX."""

    def __init__(self) -> None:
        self._plans: dict[object, CommitPlan] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._plans)

    def of(self, asked: PlainCommit, topics: Topics) -> CommitPlan | None:
        """None when some part of the commit is, or may be, refused."""
        key = (asked.api_version, asked.group_id, asked.topics)
        plan = self._plans.get(key)
        if plan is not None:
            if plan.is_of(topics):
                return plan
            self._forget(key)
        plan = _planned(asked, topics)
        if plan is None:
            return None
        self._plans[key] = plan
        self.size_bytes += _size_of(plan)
        while self.size_bytes > PLANS_BYTES_MAX:
            self._forget(next(iter(self._plans)))
        return plan

    def _forget(self, key: object) -> None:
        self.size_bytes -= _size_of(self._plans.pop(key))


def _size_of(plan: CommitPlan) -> int:
    return _PLAN_BYTES + _PARTITION_BYTES * len(plan.partitions)


def _planned(asked: PlainCommit, topics: Topics) -> CommitPlan | None:
    planned = []
    for part in asked.topics:
        topic = find_topic(topics, name_of(part), topic_id_of(part))
        if topic is None or min(part.indexes) < 0 or max(part.indexes) >= len(topic.partitions):
            return None
        try:
            records = OffsetRecords(asked.group_id, topic.name, topic.topic_id, part.indexes)
        except struct_error:
            return None
        planned.append(PlannedTopic(topic, part.indexes, records))
    return CommitPlan(asked, tuple(planned))
