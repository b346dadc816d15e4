"""UnregisterBroker and UnregisterController: forgets a node that is gone for good (KIP-631, KIP-1312). Decisions only.

A node registers once for all its roles, so both mean the same registration. Kafka forgets a live broker, too; here a
node has to be stopped first: it would only register again, and its partitions would have moved for nothing.
"""

from __future__ import annotations

from bmq.controller.decision import Decision
from bmq.controller.decision_context import DecisionContext
from bmq.controller.failover import abandonments, failovers
from bmq.metadata.image import ALL_ROLES, ROLE_CONTROLLER
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from bmq.protocol.messages.unregister_controller_response import UnregisterControllerResponse
from bmq.protocol.metadata_records import MetadataRecord, UnregisterBrokerRecord


def decide_unregister_broker(context: DecisionContext, node_id: int) -> Decision[UnregisterBrokerResponse]:
    """An error is in the response."""
    if node_id not in context.registrations:
        return Decision(
            UnregisterBrokerResponse(
                error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
                error_message=f"Broker ID {node_id} is not currently registered",
            )
        )
    try:
        return Decision(UnregisterBrokerResponse(error_message=""), _forget(context, node_id, "Broker"))
    except KafkaError as error:
        return Decision(UnregisterBrokerResponse(error_code=error.code, error_message=str(error)))


def decide_unregister_controller(
    context: DecisionContext, controller_id: int, active_id: int
) -> Decision[UnregisterControllerResponse]:
    """An error is in the response. `active_id`: the node that decides."""
    if controller_id == active_id:
        return Decision(
            UnregisterControllerResponse(
                error_code=ErrorCode.INVALID_REQUEST,
                error_message="Controller cannot unregister itself while it is active.",
            )
        )
    known = context.registrations.get(controller_id)
    if known is None or ROLE_CONTROLLER not in (known.roles or ALL_ROLES):
        return Decision(
            UnregisterControllerResponse(
                error_code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
                error_message=f"Controller ID {controller_id} is not currently registered.",
            )
        )
    try:
        return Decision(UnregisterControllerResponse(error_message=""), _forget(context, controller_id, "Controller"))
    except KafkaError as error:
        return Decision(UnregisterControllerResponse(error_code=error.code, error_message=str(error)))


def _forget(context: DecisionContext, node_id: int, kind: str) -> tuple[MetadataRecord, ...]:
    """Raises KafkaError INVALID_REQUEST for a live node."""
    known = context.registrations[node_id]
    if not known.fenced:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{kind} ID {node_id} is alive: stop the node before it is unregistered"
        )
    reason = f"node {node_id} was unregistered"
    # Nobody may go on under its epochs, should a node with this id register again (rule 1).
    changes = failovers(context, context.owners, {node_id: reason}) or abandonments(context, node_id, reason)
    return (*changes, UnregisterBrokerRecord(broker_id=node_id, broker_epoch=known.broker_epoch))
