"""Nodes that are gone for good are forgotten, live ones are not; and there are no voters to add or remove."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from bmq.controller.node_registration import decide_registration
from bmq.controller.raft_voters import refuse_add_voter, refuse_remove_voter
from bmq.controller.unregistration import decide_unregister_broker, decide_unregister_controller
from bmq.metadata.image import NO_LEADER
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from bmq.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from bmq.protocol.metadata_records import BrokerRegistrationChangeRecord
from tests.unit.controller.cluster_support import ManyNodes, registered, registration

pytestmark = pytest.mark.unit

ALL = ("proxy", "broker", "coordinator", "controller")


def test_a_fenced_node_is_forgotten_and_others_own_its_partitions() -> None:
    cluster = ManyNodes(registered(2), registered(3, fenced=True, epoch=7))
    cluster.topic("t", [(3, 2), (2, 3)], leaders=(3, 2))
    assert cluster.image.fenced_nodes.keys() == {1, 3}
    decision = decide_unregister_broker(cluster.context, 3)
    assert (decision.response.error_code, decision.response.error_message) == (ErrorCode.NONE, "")
    cluster.take(decision.records)
    assert 3 not in cluster.state.registrations and cluster.image.fenced_nodes.keys() == {1}
    assert [partition.leader for partition in cluster.partitions("t")] == [2, 2]
    again = decide_unregister_broker(cluster.context, 3)
    assert (again.response.error_code, again.response.error_message, again.records) == (
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        "Broker ID 3 is not currently registered",
        (),
    )


def test_without_another_owner_its_partitions_have_none_so_that_none_goes_on_under_its_epochs() -> None:
    cluster = ManyNodes(registered(2, fenced=True))
    cluster.topic("t", [(2,)], leaders=(2,))
    (before,) = cluster.partitions("t")
    cluster.take(decide_unregister_broker(cluster.context, 2).records)
    (after,) = cluster.partitions("t")
    assert (after.leader, after.leader_epoch) == (NO_LEADER, before.leader_epoch + 1)
    cluster.take(decide_registration(cluster.context, registration(2, 1), is_alive=False).records)
    assert cluster.partitions("t")[0].leader == NO_LEADER


def test_a_live_node_has_to_be_stopped_first() -> None:
    cluster = ManyNodes(registered(2, roles=ALL))
    for response, records in (
        (one.response, one.records)
        for one in (
            decide_unregister_broker(cluster.context, 2),
            decide_unregister_controller(cluster.context, 2, active_id=9),
        )
    ):
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert "ID 2 is alive: stop the node" in (response.error_message or "")
        assert not records


def test_controllers_are_nodes_with_that_role() -> None:
    cluster = ManyNodes(registered(2, roles=ALL, fenced=True), registered(3, fenced=True))
    own = decide_unregister_controller(cluster.context, 2, active_id=2).response
    assert (own.error_code, own.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Controller cannot unregister itself while it is active.",
    )
    for unknown in (3, 4, -1):
        response = decide_unregister_controller(cluster.context, unknown, active_id=9).response
        assert response.error_code == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        assert response.error_message == f"Controller ID {unknown} is not currently registered."
    cluster.take(decide_unregister_controller(cluster.context, 2, active_id=9).records)
    assert 2 not in cluster.state.registrations


def test_a_node_may_die_while_its_fate_is_decided() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    cluster.take([BrokerRegistrationChangeRecord(broker_id=2, fenced=1)])
    assert decide_unregister_broker(cluster.context, 2).records


UNSUPPORTED = "Cluster doesn't support {} voter because the kraft.version feature is 0"
NO_VOTER = "{} voter request didn't include a valid voter"
DIRECTORY = UUID(int=5)


@pytest.mark.parametrize(
    ("cluster_id", "voter_id", "directory", "code", "message"),
    [
        ("other", -1, None, ErrorCode.INCONSISTENT_CLUSTER_ID, 'The given id "other" doesn\'t match the cluster id "cluster"'),
        ("cluster", -1, DIRECTORY, ErrorCode.INVALID_REQUEST, NO_VOTER),
        ("cluster", 1, None, ErrorCode.INVALID_REQUEST, NO_VOTER),
        (None, 1, UUID(int=0), ErrorCode.INVALID_REQUEST, NO_VOTER),
        (None, 1, DIRECTORY, ErrorCode.UNSUPPORTED_VERSION, UNSUPPORTED),
        ("cluster", 1, DIRECTORY, ErrorCode.UNSUPPORTED_VERSION, UNSUPPORTED),
    ],
)  # fmt: skip
def test_voters_are_fixed(
    cluster_id: str | None, voter_id: int, directory: UUID | None, code: ErrorCode, message: str
) -> None:
    who: dict[str, Any] = {"cluster_id": cluster_id, "voter_id": voter_id, "voter_directory_id": directory}
    listeners = [Listener(name="CONTROLLER", host="h", port=1)]
    added = refuse_add_voter(AddRaftVoterRequest(**who, listeners=listeners), "cluster")
    removed = refuse_remove_voter(RemoveRaftVoterRequest(**who), "cluster")
    for answer, verb, doing in ((added, "Add", "adding"), (removed, "Remove", "removing")):
        expected = message.format(doing if message is UNSUPPORTED else verb)
        assert (answer.error_code, answer.error_message) == (code, expected)


def test_a_voter_has_to_say_where_it_listens() -> None:
    request = AddRaftVoterRequest(voter_id=1, voter_directory_id=DIRECTORY)
    answer = refuse_add_voter(request, "cluster")
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Add voter request didn't include the endpoint (Endpoints(endpoints={})) for the default listener "
        "ListenerName(CONTROLLER)",
    )
