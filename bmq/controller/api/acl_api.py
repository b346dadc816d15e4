"""The controller's APIs about ACLs: CreateAcls, DeleteAcls."""

from __future__ import annotations

from collections.abc import Collection

from bmq.controller.acl_changes import decide_create_acls, decide_delete_acls
from bmq.controller.api.context import ControllerContext
from bmq.controller.decision import Decision
from bmq.controller.security_level import security_level_records
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import MetadataImage
from bmq.protocol.messages.create_acls_request import CreateAclsRequest
from bmq.protocol.messages.create_acls_response import CreateAclsResponse
from bmq.protocol.messages.delete_acls_request import DeleteAclsRequest
from bmq.protocol.messages.delete_acls_response import DeleteAclsResponse
from bmq.protocol.metadata_records import FeatureLevelRecord
from bmq.protocol.request_context import RequestContext
from bmq.protocol.wire_turns import InTurns


class AclApi:
    """acl_changes.py decides."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def create_acls(self, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
        """CreateAcls 1-3."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[CreateAclsResponse]]:
            return decide_create_acls.in_turns(image, request, self._level_records, self._context.new_uuid)

        return await self._context.decisions.answer(
            decide,
            self._context.config.internal_request_wait_max_ms,
            lambda response: response.results,
            context.turns,
        )

    async def delete_acls(self, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
        """DeleteAcls 1-3."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[DeleteAclsResponse]]:
            return decide_delete_acls.in_turns(image, request)

        return await self._context.decisions.answer(
            decide,
            self._context.config.internal_request_wait_max_ms,
            lambda response: response.filter_results,
            context.turns,
        )

    def _level_records(self) -> Collection[FeatureLevelRecord]:
        state = self._context.decisions.state
        return security_level_records(state.features, state.registrations)
