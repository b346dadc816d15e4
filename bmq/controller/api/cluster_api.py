"""The controller's APIs about the cluster: DescribeQuorum, UpdateFeatures, UnregisterBroker, UnregisterController, voters."""

from __future__ import annotations

import structlog

from bmq.controller.api.context import ControllerContext
from bmq.controller.decision import Decision
from bmq.controller.feature_updates import decide_update_features
from bmq.controller.metadata_quorum import MetadataFollowers, MetadataLogState, describe_quorum
from bmq.controller.raft_voters import refuse_add_voter, refuse_remove_voter
from bmq.controller.unregistration import decide_unregister_broker, decide_unregister_controller
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import MetadataImage
from bmq.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from bmq.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from bmq.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from bmq.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from bmq.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from bmq.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from bmq.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from bmq.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from bmq.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from bmq.protocol.messages.unregister_controller_response import UnregisterControllerResponse
from bmq.protocol.messages.update_features_request import UpdateFeaturesRequest
from bmq.protocol.messages.update_features_response import UpdateFeaturesResponse
from bmq.protocol.request_context import RequestContext

_log = structlog.get_logger("bmq.controller")


class ClusterApi:
    """metadata_quorum.py, feature_updates.py, unregistration.py and raft_voters.py decide."""

    def __init__(self, context: ControllerContext, followers: MetadataFollowers) -> None:
        self._context = context
        self._followers = followers

    async def describe_quorum(self, request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
        """DescribeQuorum 0-2: the metadata log as its owner sees it. Raises ControllerGone."""
        self._context.decisions.require_active()
        log = self._context.decisions.log
        state = MetadataLogState(log.leader_epoch, log.high_watermark, log.log_end_offset, self._context.clock.now_ms())
        return describe_quorum(self._context.image, state, self._followers, request, context.api_version)

    async def update_features(self, request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
        """UpdateFeatures 0-2 (KIP-584, KIP-1022): all updates, or an error for the whole request."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[UpdateFeaturesResponse]:
            return decide_update_features(
                self._context.decision_context(), request, context.api_version, self._context.node.node_id
            )

        response = await self._context.decisions.decide(decide, request.timeout_ms)
        if not response.error_code and not request.validate_only:
            _log.info(
                "features_updated", principal=context.principal, client_host=context.client_host,
                levels={update.feature: update.max_version_level for update in request.feature_updates},
            )  # fmt: skip
        return response

    async def unregister_broker(
        self, request: UnregisterBrokerRequest, context: RequestContext
    ) -> UnregisterBrokerResponse:
        """UnregisterBroker 0."""
        response = await self._context.decisions.decide(
            lambda image, broker: decide_unregister_broker(self._context.decision_context(), request.broker_id),
            self._context.config.internal_request_wait_max_ms,
        )
        if not response.error_code:
            self._note_unregistered(request.broker_id, context)
        return response

    async def unregister_controller(
        self, request: UnregisterControllerRequest, context: RequestContext
    ) -> UnregisterControllerResponse:
        """UnregisterController 0."""
        response = await self._context.decisions.decide(
            lambda image, broker: decide_unregister_controller(
                self._context.decision_context(), request.controller_id, self._context.node.node_id
            ),
            self._context.config.internal_request_wait_max_ms,
        )
        if not response.error_code:
            self._note_unregistered(request.controller_id, context)
        return response

    @staticmethod
    def _note_unregistered(node_id: int, context: RequestContext) -> None:
        _log.info(
            "node_unregistered", node_id=node_id, principal=context.principal, client_host=context.client_host
        )  # fmt: skip

    async def add_raft_voter(self, request: AddRaftVoterRequest, context: RequestContext) -> AddRaftVoterResponse:
        """AddRaftVoter 0-1: refused."""
        return refuse_add_voter(request, self._context.image.cluster_id)

    async def remove_raft_voter(
        self, request: RemoveRaftVoterRequest, context: RequestContext
    ) -> RemoveRaftVoterResponse:
        """RemoveRaftVoter 0: refused."""
        return refuse_remove_voter(request, self._context.image.cluster_id)
