"""Registering, taking part, being fenced and leaving: codes as in KIP-631, and partitions that never wait for a dead node."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.controller.node_registration import (
    CONTROLLED_SHUTDOWN,
    decide_draining,
    decide_fencing,
    decide_heartbeat,
    decide_registration,
)
from bmq.controller.node_sessions import Overdue
from bmq.metadata.features import METADATA_VERSION_MAX, first_level, require_understood
from bmq.metadata.image import ALL_ROLES, NO_LEADER
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError, UnsupportedVersion
from bmq.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Listener
from bmq.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from tests.unit.controller.cluster_support import (
    NOW_MS,
    ManyNodes,
    heartbeat,
    registered,
    registration,
    require_sound,
)

pytestmark = pytest.mark.unit


def join(cluster: ManyNodes, node_id: int, incarnation: int = 0, *, roles: tuple[str, ...] | None = None) -> int:
    """Register a node and let it take part; its epoch."""
    request = registration(node_id, incarnation) if roles is None else registration(node_id, incarnation, roles=roles)
    decision = decide_registration(cluster.context, request, is_alive=False)
    cluster.take(decision.records)
    epoch = decision.response.broker_epoch
    cluster.take(decide_heartbeat(cluster.context, heartbeat(node_id, epoch)).records)
    return epoch


# --- registration


def test_a_node_registers_fenced_and_takes_part_when_it_knows_of_itself() -> None:
    cluster = ManyNodes()
    cluster.offset = 77
    decision = decide_registration(cluster.context, registration(5, rack="r"), is_alive=False)
    cluster.take(decision.records)
    assert decision.response.broker_epoch == 77
    assert 5 not in cluster.image.nodes
    early = decide_heartbeat(cluster.context, heartbeat(5, 77, offset=76))
    assert (early.response.is_caught_up, early.response.is_fenced, early.records) == (False, True, ())
    waiting = decide_heartbeat(cluster.context, heartbeat(5, 77, want_fence=True))
    assert (waiting.response.is_caught_up, waiting.response.is_fenced, waiting.records) == (True, True, ())
    joined = decide_heartbeat(cluster.context, heartbeat(5, 77, offset=77))
    cluster.take(joined.records)
    assert (joined.response.is_caught_up, joined.response.is_fenced) == (True, False)
    node = cluster.image.nodes[5]
    assert (node.host, node.port, node.internal, node.rest) == ("h5", 9092, ("h5", 9093), ("h5", 9094))
    assert (node.rack, node.epoch, node.roles, node.is_draining) == (
        "r",
        77,
        frozenset({"proxy", "broker", "coordinator"}),
        False,
    )
    again = decide_heartbeat(cluster.context, heartbeat(5, 77))
    assert not again.response.is_fenced and not again.records


def test_a_node_without_a_proxy_has_no_address_for_clients() -> None:
    cluster = ManyNodes()
    join(cluster, 5, roles=("broker",))
    node = cluster.image.nodes[5]
    assert (node.host, node.port, node.internal) == ("", -1, ("h5", 9092))


def test_no_roles_named_means_all() -> None:
    cluster = ManyNodes()
    join(cluster, 5, roles=())
    assert cluster.image.nodes[5].roles == ALL_ROLES


def test_the_same_incarnation_keeps_its_epoch() -> None:
    cluster = ManyNodes()
    epoch = join(cluster, 5)
    again = decide_registration(cluster.context, registration(5), is_alive=True)
    assert again.response.broker_epoch == epoch and not again.records
    # With another rack it is the same incarnation still, and takes part as before.
    moved = decide_registration(cluster.context, registration(5, rack="other"), is_alive=True)
    cluster.take(moved.records)
    assert moved.response.broker_epoch == epoch == cluster.image.nodes[5].epoch
    assert cluster.image.nodes[5].rack == "other"


def test_another_living_process_keeps_its_id() -> None:
    cluster = ManyNodes()
    join(cluster, 5)
    with pytest.raises(KafkaError, match="another living process has node id 5 \\(h5:9093\\)") as refused:
        decide_registration(cluster.context, registration(5, 1), is_alive=True)
    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_new_incarnation_hands_over_what_the_last_one_owned() -> None:
    cluster = ManyNodes()
    for node_id in (2, 3):
        join(cluster, node_id)
    topic_id = cluster.topic("t", [(2, 3), (3, 2), (2,)])
    cluster.floors[topic_id, 0] = 41
    decision = decide_registration(cluster.context, registration(2, 1), is_alive=False)
    assert decision.response.broker_epoch == cluster.offset
    cluster.take(decision.records)
    assert cluster.leaders("t") == [3, 3, 3]
    assert [p.leader_epoch for p in cluster.partitions("t")] == [1, 0, 1]
    assert [p.high_watermark_floor for p in cluster.partitions("t")] == [41, 0, 0]
    assert cluster.state.history.of(topic_id, 0)[-1].reason == "node 2 was started again"
    require_sound(cluster.image)


def test_the_only_nodes_new_incarnation_goes_on_under_new_epochs() -> None:
    cluster = ManyNodes()
    join(cluster, 2)
    cluster.topic("t", [(2,), (2,)])
    decision = decide_registration(cluster.context, registration(2, 1), is_alive=False)
    cluster.take(decision.records)
    assert cluster.leaders("t") == [NO_LEADER, NO_LEADER]
    cluster.take(decide_heartbeat(cluster.context, heartbeat(2, decision.response.broker_epoch)).records)
    assert cluster.leaders("t") == [2, 2]
    assert {p.leader_epoch for p in cluster.partitions("t")} == {2}
    require_sound(cluster.image)


@pytest.mark.parametrize(
    ("request_", "code", "why"),
    [
        (registration(5, cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID, "cluster other, this is cluster clu"),
        (registration(5, cluster_id=""), ErrorCode.INCONSISTENT_CLUSTER_ID, "without an id"),
        (registration(-1), ErrorCode.INVALID_REGISTRATION, "not negative"),
        (registration(5, roles=("cook",)), ErrorCode.INVALID_REGISTRATION, "no role 'cook'"),
        (registration(5, listeners=()), ErrorCode.INVALID_REGISTRATION, "INTERNAL listener"),
        (
            registration(5, listeners=[Listener(name="INTERNAL", host="h", port=1)]),
            ErrorCode.INVALID_REGISTRATION,
            "PLAINTEXT listener when it has the role proxy",
        ),
        (
            registration(5, listeners=[Listener(name="INTERNAL", host="h", port=1)] * 2),
            ErrorCode.INVALID_REGISTRATION,
            "each at most once",
        ),
        (
            registration(5, listeners=[Listener(name="SSL", host="h", port=1)]),
            ErrorCode.INVALID_REGISTRATION,
            "INTERNAL listener",
        ),
        (
            registration(5, roles=("broker",), listeners=[Listener(name="INTERNAL", host="", port=1)]),
            ErrorCode.INVALID_REGISTRATION,
            "255 characters",
        ),
        (registration(5, rack="r" * 256), ErrorCode.INVALID_REGISTRATION, "255 characters"),
        (registration(5, levels=(2, 3)), ErrorCode.UNSUPPORTED_VERSION, "supports bmq.metadata.version 2 to 3 and"),
        (registration(5, levels=None), ErrorCode.UNSUPPORTED_VERSION, "0 to 0 and the cluster's is 1: upgrade"),
    ],
)
def test_refused_with_a_sentence(request_: BrokerRegistrationRequest, code: ErrorCode, why: str) -> None:
    cluster = ManyNodes()
    cluster.take([FeatureLevelRecord(name="bmq.metadata.version", feature_level=1)])
    with pytest.raises(BmqError, match=why) as refused:
        decide_registration(cluster.context, request_, is_alive=False)
    assert refused.value.code is code


def test_a_node_without_an_incarnation_is_refused() -> None:
    request = registration(5)
    request.incarnation_id = None
    with pytest.raises(KafkaError, match="no incarnation id"):
        decide_registration(ManyNodes().context, request, is_alive=False)


# --- bmq.metadata.version


def test_the_level_is_written_once_and_clients_are_not_told() -> None:
    cluster = ManyNodes()
    cluster.take(first_level(cluster.state.features))
    assert cluster.state.features == {"bmq.metadata.version": 1}
    assert cluster.image.features == {}
    assert first_level(cluster.state.features) == ()
    cluster.take([FeatureLevelRecord(name="group.version", feature_level=1)])
    assert cluster.image.features == {"group.version": 1}


def test_a_level_beyond_this_server_is_not_understood() -> None:
    require_understood({})
    require_understood({"bmq.metadata.version": 1})
    for level in (0, METADATA_VERSION_MAX + 1):
        with pytest.raises(
            UnsupportedVersion, match=f"is {level} and this server supports 1 to {METADATA_VERSION_MAX}"
        ):
            require_understood({"bmq.metadata.version": level})


# --- heartbeats


@pytest.mark.parametrize("request_", [heartbeat(5, 1), heartbeat(2, 3), heartbeat(2, -1)])
def test_an_unknown_epoch_has_to_register(request_: object) -> None:
    cluster = ManyNodes(registered(2, epoch=2))
    decision = decide_heartbeat(cluster.context, request_)  # type: ignore[arg-type]
    assert decision.response.error_code == ErrorCode.STALE_BROKER_EPOCH and not decision.records


def test_a_node_may_ask_to_be_fenced() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    cluster.topic("t", [(2, 3)])
    decision = decide_heartbeat(cluster.context, heartbeat(2, 0, want_fence=True))
    cluster.take(decision.records)
    assert decision.response.is_fenced
    assert set(cluster.image.nodes) == {3} and cluster.leaders("t") == [3]


def test_a_returning_preferred_replica_takes_nothing_over() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    cluster.topic("t", [(2, 3), (2, 3)])
    cluster.take(decide_fencing(cluster.context, [Overdue(2, 0, "was silent for 2 s")]).records)
    assert cluster.leaders("t") == [3, 3]
    decision = decide_heartbeat(cluster.context, heartbeat(2, 0))
    cluster.take(decision.records)
    assert not decision.response.is_fenced
    assert cluster.leaders("t") == [3, 3] and {p.leader_epoch for p in cluster.partitions("t")} == {1}


def test_controlled_shutdown() -> None:
    cluster = ManyNodes(registered(2), registered(3))
    cluster.topic("t", [(2, 3)])
    first = decide_heartbeat(cluster.context, heartbeat(2, 0, want_shut_down=True))
    cluster.take(first.records)
    assert not first.response.should_shut_down and cluster.image.nodes[2].is_draining
    owns_one = decide_heartbeat(cluster.context, heartbeat(2, 0, want_shut_down=True))
    assert not owns_one.response.should_shut_down and not owns_one.records
    cluster.take([PartitionChangeRecord(partition_id=0, topic_id=cluster.image.topics["t"].topic_id, leader=3)])
    empty = decide_heartbeat(cluster.context, heartbeat(2, 0, want_shut_down=True))
    cluster.take(empty.records)
    assert empty.response.should_shut_down and empty.response.is_fenced and set(cluster.image.nodes) == {3}
    asked_again = decide_heartbeat(cluster.context, heartbeat(2, 0, want_shut_down=True))
    assert asked_again.response.should_shut_down and not asked_again.records
    # Started again, it takes part as if it had never been shut down.
    join(cluster, 2, 1)
    assert not cluster.image.nodes[2].is_draining


def test_whoever_stops_last_need_not_wait_for_anybody() -> None:
    cluster = ManyNodes(registered(2, draining=True), registered(3, draining=True))
    cluster.topic("t", [(2, 3), (3, 2)])
    decision = decide_heartbeat(cluster.context, heartbeat(2, 0, want_shut_down=True))
    cluster.take(decision.records)
    assert decision.response.should_shut_down
    assert cluster.leaders("t") == [3, 3]
    assert cluster.state.history.of(cluster.image.topics["t"].topic_id, 0)[-1].reason == CONTROLLED_SHUTDOWN
    last = decide_heartbeat(cluster.context, heartbeat(3, 0, want_shut_down=True))
    cluster.take(last.records)
    assert last.response.should_shut_down and not cluster.image.nodes


# --- fencing


def test_fencing_names_the_next_owners_in_the_same_batch() -> None:
    cluster = ManyNodes(registered(2), registered(3), registered(4))
    topic_id = cluster.topic("t", [(2, 3), (2, 4), (3, 4), (2,)])
    cluster.floors[topic_id, 1] = 900
    overdue = [Overdue(2, 0, "was silent for 2 s"), Overdue(9, 0, "is unknown"), Overdue(3, 55, "is another one")]
    decision = decide_fencing(cluster.context, overdue)
    assert decision.response == [2]
    kinds = [type(record) for record in decision.records]
    assert kinds == [BrokerRegistrationChangeRecord, *[PartitionChangeRecord] * 3]
    cluster.take(decision.records)
    leaders = cluster.leaders("t")
    assert leaders[:3] == [3, 4, 3] and leaders[3] in (3, 4)
    assert cluster.partitions("t")[1].high_watermark_floor == 900
    (change,) = cluster.state.history.of(topic_id, 1)
    assert (change.timestamp_ms, change.leader, change.leader_epoch) == (NOW_MS, 4, 1)
    assert change.reason == "node 2 was silent for 2 s"
    require_sound(cluster.image)
    assert decide_fencing(cluster.context, overdue).records == ()


def test_nobody_left_keeps_what_it_has() -> None:
    """Cut off from the controller a node may go on serving: better than to be told that nobody owns anything."""
    cluster = ManyNodes(registered(2))
    cluster.topic("t", [(2,)])
    cluster.take(decide_fencing(cluster.context, [Overdue(2, 0, "was silent for 2 s")]).records)
    assert not cluster.image.nodes
    assert (cluster.leaders("t"), cluster.partitions("t")[0].leader_epoch) == ([2], 0)
    cluster.take(decide_heartbeat(cluster.context, heartbeat(2, 0)).records)
    assert (cluster.leaders("t"), cluster.partitions("t")[0].leader_epoch) == ([2], 0)


def test_whoever_comes_first_takes_over_what_nobody_served() -> None:
    cluster = ManyNodes(registered(2), registered(3, fenced=True))
    cluster.topic("t", [(2,)])
    cluster.take(decide_fencing(cluster.context, [Overdue(2, 0, "died")]).records)
    cluster.take(decide_heartbeat(cluster.context, heartbeat(3, 0)).records)
    assert cluster.leaders("t") == [3]
    assert cluster.partitions("t")[0].replicas == (3,)
    require_sound(cluster.image)


def test_a_node_without_the_broker_role_owns_nothing() -> None:
    cluster = ManyNodes(registered(2), registered(3, roles=("proxy", "controller")))
    cluster.topic("t", [(2,), (2,)])
    cluster.take(decide_fencing(cluster.context, [Overdue(2, 0, "died")]).records)
    assert cluster.leaders("t") == [2, 2]


# --- draining


def test_draining_and_taking_it_back() -> None:
    cluster = ManyNodes(registered(2))
    cluster.take(decide_draining(cluster.context, 2, True).records)
    assert cluster.image.nodes[2].is_draining
    assert decide_draining(cluster.context, 2, True).records == ()
    cluster.take(decide_draining(cluster.context, 2, False).records)
    assert not cluster.image.nodes[2].is_draining
    with pytest.raises(KafkaError, match="no node 9") as refused:
        decide_draining(cluster.context, 9, True)
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_registrations_without_roles_or_internal_listener_are_those_of_the_only_node() -> None:
    cluster = ManyNodes()
    cluster.take([RegisterBrokerRecord(broker_id=8, incarnation_id=UUID(int=1), broker_epoch=5, fenced=False)])
    assert 8 not in cluster.image.nodes  # it listens nowhere
