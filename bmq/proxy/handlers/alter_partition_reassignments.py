"""AlterPartitionReassignments: which nodes may own a partition, or an end to such a change (KIP-455)."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from bmq.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: RequestContext, services: Services
) -> AlterPartitionReassignmentsResponse:
    """AlterPartitionReassignments 0-1."""
    response: AlterPartitionReassignmentsResponse = await services.controller.alter_partition_reassignments(request)
    return response
