"""The controller's APIs about configs: DescribeConfigs, ListConfigResources, IncrementalAlterConfigs, AlterConfigs."""

from __future__ import annotations

from typing import Final

from bmq.controller.api.context import ControllerContext
from bmq.controller.config_alter import decide_alter_configs, decide_incremental_alter_configs
from bmq.controller.config_describe import describe_configs
from bmq.controller.config_list import list_config_resources
from bmq.controller.decision import Decision
from bmq.metadata.broker_configs import BrokerConfigs, static_configs
from bmq.metadata.image import MetadataImage
from bmq.metadata.state import CLUSTER_WIDE
from bmq.protocol.messages.alter_configs_request import AlterConfigsRequest
from bmq.protocol.messages.alter_configs_response import AlterConfigsResponse
from bmq.protocol.messages.describe_configs_request import DescribeConfigsRequest
from bmq.protocol.messages.describe_configs_response import DescribeConfigsResponse
from bmq.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from bmq.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from bmq.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from bmq.protocol.messages.list_config_resources_response import ListConfigResourcesResponse
from bmq.protocol.request_context import RequestContext
from bmq.protocol.wire_turns import InTurns

_KAFKAS_LEVELS: Final = {"warning": "WARN"}
"""By the name of the setting log_level, where Kafka's is another one."""


class ConfigApi:
    """config_describe.py, config_list.py and config_alter.py decide."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def describe_configs(
        self, request: DescribeConfigsRequest, context: RequestContext
    ) -> DescribeConfigsResponse:
        """DescribeConfigs 1-4: includes changes made a moment ago."""
        return describe_configs(
            self._context.image,
            request,
            self._context.decisions.broker_configs,
            self._context.node.node_id,
            {"root": _KAFKAS_LEVELS.get(self._context.config.log_level, self._context.config.log_level.upper())},
            self._other_brokers(),
        )

    async def list_config_resources(
        self, request: ListConfigResourcesRequest, context: RequestContext
    ) -> ListConfigResourcesResponse:
        """ListConfigResources 0-1."""
        return list_config_resources(self._context.image, request, context.api_version)

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, context: RequestContext
    ) -> IncrementalAlterConfigsResponse:
        """IncrementalAlterConfigs 0-1 (KIP-339)."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[IncrementalAlterConfigsResponse]]:
            return decide_incremental_alter_configs.in_turns(
                image, request, broker, self._context.node.node_id, self._other_brokers()
            )

        return await self._context.decisions.answer(
            decide,
            self._context.config.internal_request_wait_max_ms,
            lambda response: response.responses,
            context.turns,
        )

    async def alter_configs(self, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
        """AlterConfigs 0-2: configs that are not named go back to their defaults."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[AlterConfigsResponse]]:
            return decide_alter_configs.in_turns(
                image, request, broker, self._context.node.node_id, self._other_brokers()
            )

        return await self._context.decisions.answer(
            decide,
            self._context.config.internal_request_wait_max_ms,
            lambda response: response.responses,
            context.turns,
        )

    def _other_brokers(self) -> dict[int, BrokerConfigs]:
        """Configs of the cluster's other nodes. Their own settings are assumed to equal ours."""
        image, own = self._context.image, self._context.node.node_id
        return {
            node_id: BrokerConfigs(
                image.broker_configs.get(str(node_id), {}),
                image.broker_configs.get(CLUSTER_WIDE, {}),
                static_configs(node, self._context.config.broker_configs),
            )
            for node_id, node in image.nodes.items()
            if node_id != own
        }
