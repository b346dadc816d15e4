"""The controller's APIs about users' SCRAM keys: DescribeUserScramCredentials, AlterUserScramCredentials."""

from __future__ import annotations

from typing import Final

import structlog

from bmq.controller.api.context import ControllerContext
from bmq.controller.decision import Decision
from bmq.controller.scram_users import decide_alter_users, describe_users
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import MetadataImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from bmq.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from bmq.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from bmq.protocol.messages.describe_user_scram_credentials_response import DescribeUserScramCredentialsResponse
from bmq.protocol.request_context import RequestContext
from bmq.protocol.turns import Pace
from bmq.protocol.wire_turns import InTurns

_log = structlog.get_logger("bmq.controller")
_LOGGED_PER_TURN_MAX: Final = 100


class UserApi:
    """scram_users.py decides."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def describe_users(
        self, request: DescribeUserScramCredentialsRequest, context: RequestContext
    ) -> DescribeUserScramCredentialsResponse:
        """DescribeUserScramCredentials 0: includes changes made a moment ago."""
        return await describe_users(self._context.image.users, request, context.turns)

    async def alter_users(
        self, request: AlterUserScramCredentialsRequest, context: RequestContext
    ) -> AlterUserScramCredentialsResponse:
        """AlterUserScramCredentials 0 (KIP-554)."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[AlterUserScramCredentialsResponse]]:
            state = self._context.decisions.state
            return decide_alter_users.in_turns(image.users, request, state.features, state.registrations)

        response = await self._context.decisions.answer(
            decide,
            self._context.config.internal_request_wait_max_ms,
            lambda response: response.results,
            context.turns,
        )
        pace = Pace(_LOGGED_PER_TURN_MAX)
        for result in response.results:
            if pace.is_over():
                await context.turns.next()
            if result.error_code == ErrorCode.NONE:
                _log.info(
                    "user_altered", user=result.user, principal=context.principal, client_host=context.client_host
                )
        return response
