"""Members of groups made of single requests, in their right or wrong order, by kio's schemas: not bmq's own codec."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

from confluent_kafka import KafkaError, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import AdminClient
from kio.schema.consumer_group_heartbeat.v1 import request as heartbeat_v1
from kio.schema.consumer_group_heartbeat.v1.response import ConsumerGroupHeartbeatResponse
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.heartbeat.v4.response import HeartbeatResponse
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.join_group.v9.response import JoinGroupResponse
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.leave_group.v5.response import LeaveGroupResponse
from kio.schema.offset_commit.v9 import request as offset_commit_v9
from kio.schema.offset_commit.v9.response import OffsetCommitResponse as OffsetCommitResponseV9
from kio.schema.offset_commit.v10 import request as offset_commit_v10
from kio.schema.offset_commit.v10.response import OffsetCommitResponse
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.sync_group.v5.response import SyncGroupResponse

from testing.patience import Patience
from testing.processes import eventually
from testing.wire import WireClient
from tests.support.kio_client import call

T = TypeVar("T")

MAY_PASS = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
RETRY_WAIT_S = 30.0
# Members of tests send no heartbeats by themselves; no test waits until they count as dead.
SESSION_TIMEOUT_MS = 60_000
PAUSE_S = 0.02
LEAVE, LEAVE_FOR_NOW = -1, -2


def retried(attempt: Callable[[], T], code_of: Callable[[T], ErrorCode]) -> T:
    """Its answer, once the coordinator serves."""
    patience = Patience(RETRY_WAIT_S)
    while True:
        answer = attempt()
        if code_of(answer) not in MAY_PASS:
            return answer
        assert not patience.is_over(), code_of(answer)
        time.sleep(PAUSE_S)


def topic_id_of(bootstrap: str, topic: str) -> UUID:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found: list[Uuid] = []

    def is_described() -> bool:
        """Apache Kafka tells of a new topic a moment later."""
        try:
            found.append(admin.describe_topics(TopicCollection([topic]))[topic].result(timeout=20).topic_id)
        except KafkaException as error:
            assert error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        return bool(found)

    eventually(is_described, 20, "the topic is known")
    words = (found[0].get_most_significant_bits(), found[0].get_least_significant_bits())
    return UUID(int=(words[0] % 2**64) << 64 | words[1] % 2**64)


class GroupClient:
    """`heartbeat` is of the consumer protocol (KIP-848), `join`, `sync`, `beat` and `leave` are of the classic one."""

    def __init__(self, client: WireClient) -> None:
        self.wire = client

    def heartbeat(
        self,
        group_id: str,
        member_id: str | None = None,
        epoch: int = 0,
        *,
        topics: Iterable[str] | None = None,
        owned: Mapping[UUID, Iterable[int]] | None = None,
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """A first heartbeat (epoch 0) says everything, as members do; a later one what is given."""
        if epoch == 0:
            fields = {"rebalance_timeout": timedelta(seconds=60)} | fields
            owned = {} if owned is None else owned
        held = tuple(
            heartbeat_v1.TopicPartitions(topic_id=topic_id, partitions=tuple(numbers))  # type: ignore[arg-type]
            for topic_id, numbers in (owned or {}).items()
        )
        request = heartbeat_v1.ConsumerGroupHeartbeatRequest(
            group_id=group_id,  # type: ignore[arg-type]
            member_id=str(uuid4()) if member_id is None else member_id,
            member_epoch=epoch,  # type: ignore[arg-type]
            subscribed_topic_names=None if topics is None else tuple(topics),  # type: ignore[arg-type]
            topic_partitions=None if owned is None else held,
            **fields,
        )
        return retried(
            lambda: call(self.wire, request, ConsumerGroupHeartbeatResponse), lambda answer: answer.error_code
        )

    def settled(
        self, group_id: str, topic: str, topic_id: UUID, partitions: int, instance_id: str | None = None
    ) -> tuple[str, int]:
        """(member id, epoch) of a group's only member that has all partitions."""
        answer = self.heartbeat(group_id, topics=[topic], instance_id=instance_id)
        assert answer.error_code is ErrorCode.none, answer
        member_id = answer.member_id
        assert member_id is not None

        def has_all() -> bool:
            nonlocal answer
            if answer.assignment is None or not answer.assignment.topic_partitions:
                answer = self.heartbeat(group_id, member_id, answer.member_epoch, instance_id=instance_id)
                assert answer.error_code is ErrorCode.none, answer
                return False
            (given,) = answer.assignment.topic_partitions
            return given.topic_id == topic_id and sorted(given.partitions) == list(range(partitions))

        eventually(has_all, 20, "the member has all partitions")
        epoch = answer.member_epoch
        owned = {topic_id: range(partitions)}
        told = self.heartbeat(group_id, member_id, epoch, owned=owned, instance_id=instance_id)
        assert told.error_code is ErrorCode.none
        return member_id, epoch

    def join(
        self,
        group_id: str,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: Mapping[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=group_id,  # type: ignore[arg-type]
            session_timeout=timedelta(milliseconds=session_timeout_ms),  # type: ignore[arg-type]
            rebalance_timeout=timedelta(milliseconds=SESSION_TIMEOUT_MS),  # type: ignore[arg-type]
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=tuple(
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in ({"range": b""} if protocols is None else protocols).items()
            ),
        )
        return retried(lambda: call(self.wire, request, JoinGroupResponse), lambda answer: answer.error_code)

    def joined(self, group_id: str, *, instance_id: str | None = None) -> tuple[str, int]:
        """(member id, generation) of a member that leads its group and has its assignment."""
        answer = self.join(group_id, instance_id=instance_id)
        if answer.error_code is ErrorCode.member_id_required:
            answer = self.join(group_id, answer.member_id)
        assert answer.error_code is ErrorCode.none, answer
        assert self.sync(group_id, answer.member_id, answer.generation_id) is ErrorCode.none
        return answer.member_id, answer.generation_id

    def sync(self, group_id: str, member_id: str, generation: int, assignment: bytes = b"") -> ErrorCode:
        request = SyncGroupRequest(
            group_id=group_id,  # type: ignore[arg-type]
            generation_id=generation,  # type: ignore[arg-type]
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(SyncGroupRequestAssignment(member_id=member_id, assignment=assignment),),
        )
        return call(self.wire, request, SyncGroupResponse).error_code

    def beat(self, group_id: str, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group_id,  # type: ignore[arg-type]
            generation_id=generation,  # type: ignore[arg-type]
            member_id=member_id,
            group_instance_id=instance_id,
        )
        return retried(lambda: call(self.wire, request, HeartbeatResponse).error_code, lambda code: code)

    def leave(self, group_id: str, member_id: str, instance_id: str | None = None) -> ErrorCode:
        request = LeaveGroupRequest(
            group_id=group_id,  # type: ignore[arg-type]
            members=(MemberIdentity(member_id=member_id, group_instance_id=instance_id),),
        )
        answer = call(self.wire, request, LeaveGroupResponse)
        return answer.error_code or answer.members[0].error_code

    def commit(
        self,
        group_id: str,
        topics: Mapping[str, Iterable[int]],
        *,
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
        metadata: str = "",
    ) -> dict[str, list[ErrorCode]]:
        """Offset 1 of these partitions."""
        schema = offset_commit_v9
        parts = {
            name: tuple(
                schema.OffsetCommitRequestPartition(
                    partition_index=number,  # type: ignore[arg-type]
                    committed_offset=1,  # type: ignore[arg-type]
                    committed_metadata=metadata,
                )
                for number in numbers
            )
            for name, numbers in topics.items()
        }
        request = schema.OffsetCommitRequest(
            group_id=group_id,  # type: ignore[arg-type]
            generation_id_or_member_epoch=generation,  # type: ignore[arg-type]
            member_id=member_id,
            group_instance_id=instance_id,
            topics=tuple(
                schema.OffsetCommitRequestTopic(name=name, partitions=those)  # type: ignore[arg-type]
                for name, those in parts.items()
            ),
        )
        answer = retried(
            lambda: call(self.wire, request, OffsetCommitResponseV9),
            lambda answer: answer.topics[0].partitions[0].error_code,
        )
        return {topic.name: [one.error_code for one in topic.partitions] for topic in answer.topics}

    def commit_by_id(self, group_id: str, topic_id: UUID, partition: int = 0) -> ErrorCode:
        schema = offset_commit_v10
        part = schema.OffsetCommitRequestPartition(
            partition_index=partition,  # type: ignore[arg-type]
            committed_offset=1,  # type: ignore[arg-type]
            committed_metadata="",
        )
        request = schema.OffsetCommitRequest(
            group_id=group_id,  # type: ignore[arg-type]
            generation_id_or_member_epoch=-1,  # type: ignore[arg-type]
            member_id="",
            topics=(schema.OffsetCommitRequestTopic(topic_id=topic_id, partitions=(part,)),),
        )
        return retried(
            lambda: call(self.wire, request, OffsetCommitResponse).topics[0].partitions[0].error_code,
            lambda code: code,
        )
