"""The controller's API about clients' quotas: AlterClientQuotas. DescribeClientQuotas is answered by every node."""

from __future__ import annotations

import structlog

from bmq.controller.api.context import ControllerContext
from bmq.controller.client_quotas import decide_alter_client_quotas
from bmq.controller.decision import Decision
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import MetadataImage
from bmq.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from bmq.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from bmq.protocol.request_context import RequestContext
from bmq.protocol.wire_turns import InTurns

_log = structlog.get_logger("bmq.controller")


class QuotaApi:
    """client_quotas.py decides."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def alter_client_quotas(
        self, request: AlterClientQuotasRequest, context: RequestContext
    ) -> AlterClientQuotasResponse:
        """AlterClientQuotas 0-1 (KIP-546)."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[AlterClientQuotasResponse]]:
            state = self._context.decisions.state
            return decide_alter_client_quotas.in_turns(image, request, state.features, state.registrations)

        response = await self._context.decisions.answer(
            decide,
            self._context.config.internal_request_wait_max_ms,
            lambda response: response.entries,
            context.turns,
        )
        altered = sum(not result.error_code for result in response.entries)
        if altered and not request.validate_only:
            _log.info(
                "client_quotas_altered", entities=altered, principal=context.principal, client_host=context.client_host
            )
        return response
