"""The controller's APIs about the owners of partitions: ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments."""

from __future__ import annotations

from bmq.controller.api.context import ControllerContext
from bmq.controller.decision_log import ControllerGone
from bmq.controller.leader_election import decide_elect_leaders
from bmq.controller.partition_mover import PartitionMover
from bmq.controller.reassignment import decide_alter_partition_reassignments, list_partition_reassignments
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from bmq.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from bmq.protocol.messages.elect_leaders_request import ElectLeadersRequest
from bmq.protocol.messages.elect_leaders_response import ElectLeadersResponse
from bmq.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from bmq.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from bmq.protocol.refusals import refused
from bmq.protocol.request_context import RequestContext


class PlacementApi:
    """leader_election.py and reassignment.py decide; the balancer leaves what they placed alone for a while."""

    def __init__(self, context: ControllerContext, mover: PartitionMover) -> None:
        self._context = context
        self._mover = mover

    async def elect_leaders(self, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
        """ElectLeaders 0-2 (KIP-460): an error for the whole request is in its error code and in every partition's."""
        before = self._context.image
        try:
            response = await self._context.decisions.answer(
                lambda image, broker: decide_elect_leaders.in_turns(
                    self._context.decision_context(), request, self._context.reports.is_offline
                ),
                request.timeout_ms,
                lambda response: (one for topic in response.replica_election_results for one in topic.partition_result),
                context.turns,
            )
        except ControllerGone:
            raise
        except KafkaError as error:
            response = refused(ApiKey.ELECT_LEADERS, request, error.code, str(error))
        self._mover.placed(before, self._context.image)
        return response

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, context: RequestContext
    ) -> AlterPartitionReassignmentsResponse:
        """AlterPartitionReassignments 0-1 (KIP-455)."""
        before = self._context.image
        response = await self._context.decisions.answer(
            lambda image, broker: decide_alter_partition_reassignments.in_turns(
                self._context.decision_context(), request
            ),
            request.timeout_ms,
            lambda response: (one for topic in response.responses for one in topic.partitions),
            context.turns,
        )
        self._mover.placed(before, self._context.image)
        return response

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, context: RequestContext
    ) -> ListPartitionReassignmentsResponse:
        """ListPartitionReassignments 0: none is ever under way, since replicas hold no data."""
        return list_partition_reassignments(request)
