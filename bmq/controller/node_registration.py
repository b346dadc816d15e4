"""Nodes register, are unfenced, fenced, and leave: decides what is allowed and which records it takes. Pure.

As in KIP-631: a process registers once (an *incarnation* of its node id), gets the metadata log's offset as its epoch, is
fenced at first, and takes part from the heartbeat on that says it knows of its own registration. Registrations are in the
log, so they survive a controller failover. Unlike in Kafka, one batch of records fences a dead node and names the next
owners of its partitions in use. When a new incarnation registers, the same batch gives every partition of the previous
one a new leader epoch: no process goes on under an epoch that was given to another (rule 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from bmq.controller.decision import Decision
from bmq.controller.decision_context import DecisionContext
from bmq.controller.failover import FAILOVERS_AT_FIRST, abandonments, failovers, owns_any
from bmq.metadata.features import require_supported
from bmq.metadata.image import ALL_ROLES, ROLE_BROKER, ROLE_PROXY, Node
from bmq.metadata.state import (
    INTERNAL_LISTENER_NAME,
    LISTENER_NAME,
    node_of,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from bmq.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from bmq.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from bmq.protocol.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
)

CONTROLLED_SHUTDOWN: Final = "controlled shutdown"
NODES_MAX: Final = 10_000
_LISTENERS_MAX: Final = 32
_FEATURES_MAX: Final = 100
_TEXT_LENGTH_MAX: Final = 255
_YES: Final = 1
_NO: Final = -1


class _FencedNode(Protocol):
    @property
    def node_id(self) -> int: ...
    @property
    def broker_epoch(self) -> int: ...
    @property
    def why(self) -> str: ...


def decide_registration(
    context: DecisionContext, request: BrokerRegistrationRequest, *, is_alive: bool
) -> Decision[RegisterBrokerRecord]:
    """The registration after the request. `is_alive`: whether this controller still hears from the known incarnation.

    Raises KafkaError INCONSISTENT_CLUSTER_ID, INVALID_REGISTRATION, DUPLICATE_BROKER_REGISTRATION, and UnsupportedVersion.
    """
    node_id = request.broker_id
    cluster_id = context.image.cluster_id
    if request.cluster_id != cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"node {node_id} belongs to cluster {request.cluster_id or 'without an id'}, this is cluster {cluster_id}",
        )
    wanted = _registration(request, context.next_offset)
    require_supported(node_id, wanted.features, context.features)
    known = context.registrations.get(node_id)
    if known is None:
        if len(context.registrations) >= NODES_MAX:
            raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"there are {NODES_MAX} nodes, no more are allowed")
        return Decision(wanted, (wanted,))
    if known.incarnation_id == request.incarnation_id:
        same = replace(
            wanted,
            broker_epoch=known.broker_epoch,
            fenced=known.fenced,
            in_controlled_shutdown=known.in_controlled_shutdown,
        )
        return Decision(same, () if same == known else (same,))
    if is_alive:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"another living process has node id {node_id} ({_address(known)}): give this one an id of its own",
        )
    return Decision(wanted, (wanted, *_end_of_incarnation(context, node_id)))


def decide_heartbeat(context: DecisionContext, request: BrokerHeartbeatRequest) -> Decision[BrokerHeartbeatResponse]:
    """The records and the answer that follow from a node's heartbeat.

    A node that wants to stop is told to, and fenced, once it leads nothing; or at once when no other node could take
    over. STALE_BROKER_EPOCH: it has to register (again).
    """
    known = context.registrations.get(request.broker_id)
    if known is None or known.broker_epoch != request.broker_epoch:
        return Decision(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    is_caught_up = request.current_metadata_offset >= known.broker_epoch
    records: Sequence[MetadataRecord] = ()
    should_shut_down = False
    is_fenced = known.fenced
    if request.want_shut_down:
        if is_fenced or _can_stop(context, known.broker_id):
            should_shut_down = is_fenced = True
            if not known.fenced:
                records = _fence(context, {known.broker_id: CONTROLLED_SHUTDOWN})
        elif not known.in_controlled_shutdown:
            records = (_change(known, in_controlled_shutdown=_YES),)
    elif request.want_fence:
        if not is_fenced:
            is_fenced = True
            records = _fence(context, {known.broker_id: f"node {known.broker_id} asked to be fenced"})
    elif is_fenced and is_caught_up:
        is_fenced = False
        records = _unfence(context, known)
    response = BrokerHeartbeatResponse(
        is_caught_up=is_caught_up, is_fenced=is_fenced, should_shut_down=should_shut_down
    )
    return Decision(response, records)


def decide_fencing(
    context: DecisionContext, overdue: Sequence[_FencedNode], failovers_max: int = FAILOVERS_AT_FIRST
) -> Decision[list[int]]:
    """Fence the overdue nodes that are not fenced yet, all at once, and name next owners; the ids of the fenced nodes.

    Beyond `failovers_max` partitions, the idle ones are left to `decide_remaining_failovers`.
    """
    reasons = {}
    for node in overdue:
        known = context.registrations.get(node.node_id)
        if known is not None and known.broker_epoch == node.broker_epoch and not known.fenced:
            reasons[node.node_id] = f"node {node.node_id} {node.why}"
    return Decision(list(reasons), _fence(context, reasons, failovers_max) if reasons else ())


def decide_draining(context: DecisionContext, node_id: int, is_draining: bool) -> Decision[None]:
    """Start or end draining: a draining node gives its partitions away. Raises KafkaError BROKER_ID_NOT_REGISTERED."""
    known = context.registrations.get(node_id)
    if known is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no node {node_id}")
    if known.in_controlled_shutdown == is_draining:
        return Decision(None)
    return Decision(None, (_change(known, in_controlled_shutdown=_YES if is_draining else _NO),))


def _fence(
    context: DecisionContext, reasons: Mapping[int, str], failovers_max: int = FAILOVERS_AT_FIRST
) -> tuple[MetadataRecord, ...]:
    live = {node_id: node for node_id, node in context.owners.items() if node_id not in reasons}
    fenced = (_change(context.registrations[node_id], fenced=_YES) for node_id in reasons)
    return (*fenced, *failovers(context, live, reasons, failovers_max))


def _unfence(context: DecisionContext, known: RegisterBrokerRecord) -> tuple[MetadataRecord, ...]:
    node = node_of(known)
    live: dict[int, Node] = dict(context.owners)
    if ROLE_BROKER in node.roles:
        live[node.node_id] = node
    return (_change(known, fenced=_NO), *failovers(context, live, {}))


def _end_of_incarnation(context: DecisionContext, node_id: int) -> Sequence[MetadataRecord]:
    """The node's partitions belonged to a process that is gone; nobody may continue under their epochs (rule 1)."""
    reason = f"node {node_id} was started again"
    live = {other: node for other, node in context.owners.items() if other != node_id}
    return failovers(context, live, {node_id: reason}) if live else abandonments(context, node_id, reason)


def _can_stop(context: DecisionContext, node_id: int) -> bool:
    """Whether it owns nothing or no other node could take over.

    Draining ones do not count, so a whole cluster can stop.
    """
    others = [node for other, node in context.owners.items() if other != node_id and not node.is_draining]
    return not others or not owns_any(context.image, node_id)


def _change(
    known: RegisterBrokerRecord, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=known.broker_id,
        broker_epoch=known.broker_epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


def _registration(request: BrokerRegistrationRequest, broker_epoch: int) -> RegisterBrokerRecord:
    """The registration record. Raises KafkaError INVALID_REGISTRATION for impossible values."""
    roles = frozenset(request.roles) or ALL_ROLES
    names = [listener.name for listener in request.listeners]
    hosts = [listener.host for listener in request.listeners]
    node_id = request.broker_id
    if node_id < 0:
        why = "a node id is not negative"
    elif request.incarnation_id is None:
        why = "it has no incarnation id"
    elif unknown := sorted(roles - ALL_ROLES):
        why = f"there is no role {unknown[0]!r}"
    elif len(names) != len(set(names)) or any(not 0 < len(name) <= _TEXT_LENGTH_MAX for name in names):
        why = f"listeners have names of 1 to {_TEXT_LENGTH_MAX} characters, each at most once"
    elif len(names) > _LISTENERS_MAX:
        why = f"it has more than {_LISTENERS_MAX} listeners"
    elif INTERNAL_LISTENER_NAME not in names:
        why = f"a node of a cluster has an {INTERNAL_LISTENER_NAME} listener"
    elif (LISTENER_NAME in names) != (ROLE_PROXY in roles):
        why = f"a node has a {LISTENER_NAME} listener when it has the role {ROLE_PROXY}, and only then"
    elif any(not 0 < len(host) <= _TEXT_LENGTH_MAX for host in hosts) or len(request.rack or "") > _TEXT_LENGTH_MAX:
        why = f"hosts and racks have 1 to {_TEXT_LENGTH_MAX} characters"
    elif len(request.features) > _FEATURES_MAX:
        why = f"it has more than {_FEATURES_MAX} features"
    else:
        return RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=broker_epoch,
            end_points=tuple(
                BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
                for each in request.listeners
            ),
            features=tuple(
                BrokerFeature(
                    name=each.name,
                    min_supported_version=each.min_supported_version,
                    max_supported_version=each.max_supported_version,
                )
                for each in request.features
            ),
            rack=request.rack,
            fenced=True,
            roles=tuple(sorted(roles)),
        )
    raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"node {node_id} cannot register: {why}")


def _address(known: RegisterBrokerRecord) -> str:
    internal = node_of(known).internal
    return "at an unknown address" if internal is None else "{}:{}".format(*internal)
