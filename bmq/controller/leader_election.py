"""ElectLeaders: moves partitions back to preferred owners, or accepts the loss of one that cannot be served.

Decisions only. Checks, codes and words are those of Kafka's ReplicationControlManager.electLeaders (4.3). Any node can
serve any partition here, so an unclean election matters only for rule 5: the present owner found less in the store than
was acknowledged and stays offline until an operator accepts that loss by name. Then a new leader epoch starts without
the floor.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final
from uuid import UUID

from bmq.controller.decision import Deciding, Decision
from bmq.controller.decision_context import DecisionContext
from bmq.controller.failover import NextOwners
from bmq.controller.views import require_log
from bmq.metadata.image import NO_LEADER, PartitionImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest
from bmq.protocol.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from bmq.protocol.metadata_records import PartitionChangeRecord
from bmq.protocol.turns import Pace
from bmq.protocol.wire_turns import InTurns

PREFERRED_ELECTION: Final = "preferred leader election"
UNCLEAN_ELECTION: Final = "unclean leader election"
LOSS_ACCEPTED: Final = "unclean leader election: the loss of acknowledged records was accepted"


class ElectionType(IntEnum):
    """Numbers of ElectLeadersRequest.election_type (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


@Deciding
def decide_elect_leaders(
    context: DecisionContext, request: ElectLeadersRequest, is_offline: Callable[[UUID, PartitionImage], bool]
) -> InTurns[Decision[ElectLeadersResponse]]:
    """Each partition by itself. With no topics named: all, and the answer has only elected and failed partitions.

    `is_offline`: whether the owner refuses to serve. Raises KafkaError INVALID_REQUEST for an unknown type of election.
    """
    try:
        election = ElectionType(request.election_type)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}") from error
    elections = _Elections(context, election, is_offline, is_by_name=request.topic_partitions is not None)
    results = []
    pace = Pace()
    if request.topic_partitions is None:
        for topic in context.image.logs():
            done = []
            for partition in topic.partitions:
                if pace.is_over():
                    yield
                result = elections.elect(topic.name, partition.partition)
                if result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                    done.append(result)
            results.append(ReplicaElectionResult(topic=topic.name, partition_result=done))
    else:
        for wanted in request.topic_partitions:
            done = []
            for number in wanted.partitions:
                if pace.is_over():
                    yield
                done.append(elections.elect(wanted.topic, number))
            results.append(ReplicaElectionResult(topic=wanted.topic, partition_result=done))
    return Decision(ElectLeadersResponse(replica_election_results=results), elections.records)


class _Elections:
    """The elections of one request."""

    def __init__(
        self,
        context: DecisionContext,
        election: ElectionType,
        is_offline: Callable[[UUID, PartitionImage], bool],
        *,
        is_by_name: bool,
    ) -> None:
        self.records: list[PartitionChangeRecord] = []
        self._decision_context = context
        self._election = election
        self._is_offline = is_offline
        self._is_by_name = is_by_name
        self._done = set[tuple[str, int]]()
        self._next_owners: NextOwners | None = None

    def elect(self, name: str, number: int) -> PartitionResult:
        try:
            if record := self._record(name, number):
                self.records.append(record)
                self._done.add((name, number))
        except KafkaError as error:
            return PartitionResult(partition_id=number, error_code=error.code, error_message=str(error))
        return PartitionResult(partition_id=number)

    def _record(self, name: str, number: int) -> PartitionChangeRecord:
        topic = self._decision_context.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        require_log(topic)
        partition = topic.partition(number)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
        if (name, number) in self._done:
            raise _not_needed()
        if self._election is ElectionType.UNCLEAN:
            return self._unclean(topic.topic_id, partition)
        return self._preferred(topic.topic_id, partition)

    def _preferred(self, topic_id: UUID, partition: PartitionImage) -> PartitionChangeRecord:
        live = self._decision_context.owners
        preferred = partition.replicas[0] if partition.replicas else NO_LEADER
        if partition.leader == preferred:
            raise _not_needed()
        if preferred not in live or live[preferred].is_draining:
            raise KafkaError(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                "The preferred leader was not available."
                if preferred not in live
                else f"The preferred leader, node {preferred}, is being drained.",
            )
        return self._decision_context.new_leader_epoch(
            topic_id, partition, preferred, partition.replicas, live, PREFERRED_ELECTION
        )

    def _unclean(self, topic_id: UUID, partition: PartitionImage) -> PartitionChangeRecord:
        live = self._decision_context.owners
        if not live:
            raise KafkaError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."
            )
        if partition.leader not in live:
            # No live owner has looked into the store yet, so there is no known loss to accept.
            self._next_owners = self._next_owners or NextOwners(self._decision_context.image, live)
            owner, replicas = self._next_owners.choose(partition)
            return self._decision_context.new_leader_epoch(topic_id, partition, owner, replicas, live, UNCLEAN_ELECTION)
        if not self._is_offline(topic_id, partition):
            raise _not_needed()
        if not self._is_by_name:
            raise KafkaError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                "Its log ends before what was acknowledged; name the partition to accept that loss.",
            )
        return self._decision_context.new_leader_epoch(
            topic_id, partition, partition.leader, partition.replicas, live, LOSS_ACCEPTED, floor=0
        )


def _not_needed() -> KafkaError:
    return KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
