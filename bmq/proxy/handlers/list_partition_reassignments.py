"""ListPartitionReassignments: the changes that are under way (KIP-455)."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from bmq.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.LIST_PARTITION_REASSIGNMENTS)
async def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: RequestContext, services: Services
) -> ListPartitionReassignmentsResponse:
    """ListPartitionReassignments 0."""
    response: ListPartitionReassignmentsResponse = await services.controller.list_partition_reassignments(request)
    return response
