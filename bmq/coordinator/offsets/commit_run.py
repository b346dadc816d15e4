"""One commit on its way through a shard's log as a run of records (state_log.RecordRun), without task or future."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from bmq.coordinator.offsets.commit_plans import CommitPlan
from bmq.coordinator.offsets.offsets import Offsets
from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.log.state_log import StateLog
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.hot_commit import Committed

CommitDone = Callable[[ErrorCode, bytes], None]
"""The error code of all partitions (NONE for success), and the body of the answer that carries it."""


class CommittingShard(Protocol):
    """What a CommitRun needs of its shard."""

    offsets: Offsets
    state_log: StateLog

    def run_ended(self, run: CommitRun, error: KafkaError | None) -> None: ...


class CommitRun:
    """A RecordRun: writes `committed` for the partitions of `plan`, at `now_ms`. Call `begin` once."""

    __slots__ = ("_committed", "_done", "_now_ms", "_offsets", "_shard", "plan", "record_count", "size_bytes", "ticket")

    def __init__(
        self, shard: CommittingShard, plan: CommitPlan, committed: Sequence[Committed], now_ms: int, done: CommitDone
    ) -> None:
        self._shard = shard
        self._offsets = shard.offsets
        self._committed = committed
        self._now_ms = now_ms
        self._done = done
        self.plan = plan
        self.record_count = len(plan.partitions)
        self.size_bytes = plan.size_bytes
        self.ticket = -1

    def begin(self) -> None:
        self.ticket = self._offsets.begin(self.plan.group_id, self.plan.partitions)
        self._shard.state_log.append_run(self)

    def encoded(self, first_delta: int) -> bytes | bytearray:
        topics = self.plan.topics
        if len(topics) == 1:
            return topics[0].records.encoded(first_delta, *self._committed[0], self._now_ms)
        out = bytearray()
        for part, (offsets, leader_epochs) in zip(topics, self._committed, strict=True):
            out += part.records.encoded(first_delta, offsets, leader_epochs, self._now_ms)
            first_delta += len(part.indexes)
        return out

    def apply(self) -> None:
        group_id = self.plan.group_id
        for (topic, indexes, _), (offsets, leader_epochs) in zip(self.plan.topics, self._committed, strict=True):
            self._offsets.replay_topic(
                group_id, topic.name, topic.topic_id, indexes, offsets, leader_epochs, self._now_ms
            )

    def finished(self, error: KafkaError | None) -> None:
        self._offsets.end(self.plan.group_id, self.ticket)
        self._shard.run_ended(self, error)
        if error is None:
            self._done(ErrorCode.NONE, self.plan.answer)
        else:
            code = coordinator_error(error)
            self._done(code, self.plan.answer_of(code))
