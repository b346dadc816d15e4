"""DescribeCluster: the nodes a client may connect to. Sources: KIP-700, KIP-919 (endpoint types), KIP-1073 (fenced)."""

from __future__ import annotations

from typing import Final

from bmq.metadata.image import ROLE_PROXY
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_cluster_request import DescribeClusterRequest
from bmq.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED_FOR
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services
from bmq.proxy.topic_views import client_controller, client_nodes

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


@handles(ApiKey.DESCRIBE_CLUSTER)
async def describe_cluster(
    request: DescribeClusterRequest, context: RequestContext, services: Services
) -> DescribeClusterResponse:
    """Answer DescribeCluster 0-2. Nodes without a proxy are never listed, fenced or not."""
    if request.endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            "CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    image = services.controller.image
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=client_controller(image),
        brokers=[
            DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in client_nodes(image)
        ]
        + [
            DescribeClusterBroker(
                broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack, is_fenced=True
            )
            for node in (image.fenced_nodes.values() if request.include_fenced_brokers else ())
            if ROLE_PROXY in node.roles
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED_FOR
        ),
    )
