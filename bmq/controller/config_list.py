"""ListConfigResources: the resources that have configs (KIP-1000, KIP-1142). Pure."""

from __future__ import annotations

from typing import Final

from bmq.metadata.config_keys import ResourceType
from bmq.metadata.image import MetadataImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from bmq.protocol.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse

_TYPES_FROM_VERSION: Final = 1


def list_config_resources(
    image: MetadataImage, request: ListConfigResourcesRequest, api_version: int
) -> ListConfigResourcesResponse:
    """Without types, every type the version knows; a type it does not know is UNSUPPORTED_VERSION, as in Kafka."""
    names = {
        ResourceType.GROUP: tuple(image.group_configs),
        ResourceType.CLIENT_METRICS: tuple(image.client_metrics),
        ResourceType.BROKER_LOGGER: tuple(map(str, sorted(image.nodes))),
        ResourceType.BROKER: tuple(map(str, sorted(image.nodes))),
        ResourceType.TOPIC: tuple(image.topics),
    }
    known = names.keys() if api_version >= _TYPES_FROM_VERSION else {ResourceType.CLIENT_METRICS}
    wanted = set(request.resource_types) or known
    if not wanted <= known:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in names
            if kind in wanted
            for name in names[kind]
        ]
    )
