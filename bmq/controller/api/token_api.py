"""The controller's APIs about delegation tokens: Create-, Renew-, ExpireDelegationToken; and the removal of expired ones.

DescribeDelegationToken is answered by every node.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import TypeVar

import structlog

from bmq.controller.api.context import ControllerContext
from bmq.controller.decision import Decision
from bmq.controller.decision_log import ControllerGone
from bmq.controller.delegation_tokens import (
    TokenTimes,
    decide_create,
    decide_expire,
    decide_renew,
    decide_sweep,
)
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import MetadataImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from bmq.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from bmq.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from bmq.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from bmq.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from bmq.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from bmq.protocol.request_context import RequestContext
from bmq.security.delegation_tokens import SECRET_KEY, TokenMacs, create_refused, macs_of

_log = structlog.get_logger("bmq.controller")

R = TypeVar("R")


class TokenApi:
    """delegation_tokens.py decides. `start` the removal of expired tokens once decisions can be taken; `close` ends it."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._macs = macs_of(context.decisions.broker_configs.value_of(SECRET_KEY))
        self._sweeping: asyncio.Task[None] | None = None

    async def create_token(
        self, request: CreateDelegationTokenRequest, context: RequestContext
    ) -> CreateDelegationTokenResponse:
        """CreateDelegationToken 1-3 (KIP-48, KIP-373)."""

        def refused(code: ErrorCode) -> CreateDelegationTokenResponse:
            return create_refused(request, context.principal, code)

        def decide(macs: TokenMacs, image: MetadataImage, times: TokenTimes) -> Decision[CreateDelegationTokenResponse]:
            state = self._context.decisions.state
            return decide_create(
                image.delegation_tokens,
                request,
                context.principal,
                self._new_id(image),
                macs,
                times,
                state.features,
                state.registrations,
            )

        response = await self._decided(decide, refused)
        if not response.error_code:
            _log.info(
                "delegation_token_created",
                token_id=response.token_id,
                owner=f"{response.principal_type}:{response.principal_name}",
                principal=context.principal,
                client_host=context.client_host,
            )
        return response

    async def renew_token(
        self, request: RenewDelegationTokenRequest, context: RequestContext
    ) -> RenewDelegationTokenResponse:
        """RenewDelegationToken 1-2."""

        def decide(macs: TokenMacs, image: MetadataImage, times: TokenTimes) -> Decision[RenewDelegationTokenResponse]:
            return decide_renew(image.delegation_tokens, request, context.principal, macs, times)

        return await self._decided(
            decide, lambda code: RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=0)
        )

    async def expire_token(
        self, request: ExpireDelegationTokenRequest, context: RequestContext
    ) -> ExpireDelegationTokenResponse:
        """ExpireDelegationToken 1-2."""

        def decide(macs: TokenMacs, image: MetadataImage, times: TokenTimes) -> Decision[ExpireDelegationTokenResponse]:
            return decide_expire(image.delegation_tokens, request, context.principal, macs, times)

        return await self._decided(
            decide, lambda code: ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=0)
        )

    def start(self) -> None:
        if self._macs is not None:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_for_ever())

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)

    async def _decided(
        self,
        decide: Callable[[TokenMacs, MetadataImage, TokenTimes], Decision[R]],
        refused: Callable[[ErrorCode], R],
    ) -> R:
        """The decision's answer. Raises ControllerGone."""
        macs = self._macs
        if macs is None:
            return refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

        def in_turn(image: MetadataImage, broker: BrokerConfigs) -> Decision[R]:
            times = TokenTimes(
                broker.number("delegation.token.max.lifetime.ms"),
                broker.number("delegation.token.expiry.time.ms"),
                self._context.clock.now_ms(),
            )
            return decide(macs, image, times)

        try:
            return await self._context.decisions.decide(in_turn, self._context.config.internal_request_wait_max_ms)
        except ControllerGone:
            raise
        except BmqError as error:
            return refused(error.code)

    def _new_id(self, image: MetadataImage) -> str:
        """As Kafka writes ids: base64 for URLs, not beginning with a dash, which tools would take for an option."""
        while True:
            new = base64.urlsafe_b64encode(self._context.new_uuid().bytes).rstrip(b"=").decode()
            if not new.startswith("-") and new not in image.delegation_tokens:
                return new

    async def _sweep_for_ever(self) -> None:
        decisions = self._context.decisions
        while True:
            await asyncio.sleep(decisions.broker_configs.number("delegation.token.expiry.check.interval.ms") / 1000)

            def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[int]:
                return decide_sweep(image.delegation_tokens, self._context.clock.now_ms())

            try:
                count = await decisions.decide(decide, self._context.config.internal_request_wait_max_ms)
            except ControllerGone:
                return
            except BmqError as error:
                _log.warning("expired_tokens_not_removed", reason=str(error))
                continue
            if count:
                _log.info("expired_tokens_removed", tokens=count)
