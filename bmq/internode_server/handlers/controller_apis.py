"""Nodes' requests to the active controller; any other node answers NOT_CONTROLLER."""

from __future__ import annotations

from bmq.internode_server.services import internal
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.internal_messages import (
    MetadataFetchRequest,
    MetadataFetchResponse,
    ReportPartitionsRequest,
    ReportPartitionsResponse,
)
from bmq.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from bmq.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from bmq.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from bmq.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from bmq.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from bmq.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services


@handles(ApiKey.BROKER_REGISTRATION)
async def register_node(
    request: BrokerRegistrationRequest, context: RequestContext, services: Services
) -> BrokerRegistrationResponse:
    """BrokerRegistration 4 (KIP-631)."""
    controller = internal(services).leadership.active
    if controller is None:
        return BrokerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return await controller.register_node(request, context.peer)


@handles(ApiKey.BROKER_HEARTBEAT)
async def heartbeat(
    request: BrokerHeartbeatRequest, context: RequestContext, services: Services
) -> BrokerHeartbeatResponse:
    """BrokerHeartbeat 0-1 (KIP-631)."""
    controller = internal(services).leadership.active
    if controller is None:
        return BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return await controller.heartbeat(request, context.peer)


@handles(ApiKey.REPORT_PARTITIONS)
async def report_partitions(
    request: ReportPartitionsRequest, context: RequestContext, services: Services
) -> ReportPartitionsResponse:
    """High watermarks (rule 5) and load."""
    controller = internal(services).leadership.active
    if controller is None:
        return ReportPartitionsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return await controller.report_partitions(request)


@handles(ApiKey.METADATA_FETCH)
async def metadata_fetch(
    request: MetadataFetchRequest, context: RequestContext, services: Services
) -> MetadataFetchResponse:
    """Records of the metadata log from an offset on; a node that is not the controller names the controller instead.

    Both answers say how far this node itself has replayed, for a controller that is about to start (rule 25).
    """
    controller = internal(services).leadership.active
    if controller is None:
        claim = internal(services).known.claim
        node_id, epoch = (-1, -1) if claim is None else (claim.node_id, claim.epoch)
        response = MetadataFetchResponse(
            error_code=ErrorCode.NOT_CONTROLLER, controller_id=node_id, controller_epoch=epoch
        )
    else:
        response = await controller.metadata_fetch(request)
    seen = internal(services).metadata_seen()
    response.seen_epoch, response.seen_offset = seen.epoch, seen.offset
    return response


@handles(ApiKey.ALLOCATE_PRODUCER_IDS)
async def allocate_producer_ids(
    request: AllocateProducerIdsRequest, context: RequestContext, services: Services
) -> AllocateProducerIdsResponse:
    """AllocateProducerIds 0 (KIP-730)."""
    controller = internal(services).leadership.active
    if controller is None:
        return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return await controller.allocate_producer_ids_for(request)
