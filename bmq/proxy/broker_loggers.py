"""Answers the part of config requests that is about this process's own loggers; other parts go on to their handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog

from bmq.metadata.config_keys import ConfigSource, ResourceType
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from bmq.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from bmq.protocol.messages.incremental_alter_configs_request import AlterConfigsResource, IncrementalAlterConfigsRequest
from bmq.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from bmq.protocol.request_context import RequestContext
from bmq.proxy.log_levels import LogLevels

APIS_WITH_LOGGERS: Final = frozenset({ApiKey.DESCRIBE_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})
_log = structlog.get_logger("bmq.proxy")

Forward = Callable[[Any], Awaitable[Any]]
"""Sends the other resources of the request on, and returns their answer."""


async def answer(
    api_key: ApiKey, request: Any, context: RequestContext, levels: LogLevels, node_id: int, forward: Forward
) -> Any:
    """The answer to a request of APIS_WITH_LOGGERS; results are in the order of the resources. Raises KafkaError."""

    def is_own(resource: DescribeConfigsResource | AlterConfigsResource) -> bool:
        return resource.resource_type == ResourceType.BROKER_LOGGER and resource.resource_name == str(node_id)

    own = [is_own(resource) for resource in request.resources]
    if own.count(True) != 1:  # a resource that is named twice is refused
        return await forward(request)
    others: list[Any] = []
    rest = [resource for resource in request.resources if not is_own(resource)]
    if rest:
        response = await forward(replace(request, resources=rest))
        others = list(response.results if api_key is ApiKey.DESCRIBE_CONFIGS else response.responses)
    position = own.index(True)
    resource = request.resources[position]
    if api_key is ApiKey.DESCRIBE_CONFIGS:
        others.insert(position, _described(resource, request, levels))
        return DescribeConfigsResponse(results=others)
    others.insert(position, _altered(resource, request, context, levels))
    return IncrementalAlterConfigsResponse(responses=others)


def _described(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, levels: LogLevels
) -> DescribeConfigsResult:
    wanted: Sequence[str] = resource.configuration_keys or ()
    return DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            DescribeConfigsResourceResult(
                name=name,
                value=level,
                config_source=ConfigSource.DYNAMIC_BROKER_LOGGER,
                documentation="" if request.include_documentation else None,
            )
            for name, level in levels.described().items()
            if not wanted or name in wanted
        ],
    )


def _altered(
    resource: AlterConfigsResource, request: IncrementalAlterConfigsRequest, context: RequestContext, levels: LogLevels
) -> AlterConfigsResourceResponse:
    result = AlterConfigsResourceResponse(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_code=ErrorCode.NONE
    )
    try:
        levels.alter(resource.configs, validate_only=request.validate_only)
    except BmqError as error:
        result.error_code, result.error_message = error.code, str(error)
    else:
        if not request.validate_only:
            _log.warning(
                "log_levels_altered", principal=context.principal, client_host=context.client_host,
                levels={config.name: config.value for config in resource.configs},
            )  # fmt: skip
    return result
