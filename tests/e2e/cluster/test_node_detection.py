"""How soon a node is found out that hangs or dies, with the session timeout that nodes have by default (2 s)."""

from __future__ import annotations

import re
import time

import pytest

from bmq.membership.settings import ClusterSettings
from testing.cluster import BmqCluster, ClusterNode
from testing.patience import Patience, stalled_s
from testing.processes import eventually
from testing.steady_load import assert_nothing_lost
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.support.paced_load import producing

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(240), pytest.mark.safety]

PARTITIONS = 3
SESSION_S = ClusterSettings().node_session_timeout_ms / 1000
# From the end of its session until another node knows the next owner, on a quiet machine.
NAMED_MAX_S = 2.0
SEEN_WAIT_S = 30.0
# The hung node is the proxy of a client's partition too: the client itself has to give it up.
IMPATIENT = {"socket.timeout.ms": 3_000, "request.timeout.ms": 3_000}


def reasons(cluster: BmqCluster, victim: ClusterNode) -> list[str]:
    """Why the victim was fenced, as the controllers logged it."""
    logs = (node.process.log_file.read_text() for node in cluster.nodes.values())
    lines = (line for log in logs for line in log.splitlines() if "node_fenced" in line and "reason" in line)
    return [line for line in lines if re.search(rf"node_id[^0-9]{{1,3}}{victim.node_id}\b", line)]


@pytest.mark.parametrize("is_killed", [False, True], ids=["hangs", "dies"])
def test_a_node_is_found_out_within_its_session(
    new_cluster: ClusterMaker, make_topic: TopicMaker, is_killed: bool
) -> None:
    assert SESSION_S == 2.0, "the default changed: so does what documents say of failovers"
    cluster = new_cluster(3, BMQ_CLUSTER__NODE_SESSION_TIMEOUT_MS=f"{SESSION_S * 1000:.0f}")
    cluster.start()
    topic = make_topic(cluster, PARTITIONS)
    controller = cluster.controller()
    with producing(controller.bootstrap, topic, PARTITIONS, **IMPATIENT) as load:
        cluster.wait_balanced()
        # As many partitions as nodes, of which one is the controller's: this one's die with it in use.
        victim = next(cluster.node(owner) for owner in cluster.owners_of(topic) if owner != controller.node_id)
        assert cluster.controller() is controller
        (victim.kill if is_killed else victim.pause)()
        since_s = time.monotonic()
        eventually(lambda: victim.node_id not in cluster.owners_of(topic), SEEN_WAIT_S, "another owner is named", 0.02)
        took_s = time.monotonic() - since_s
        load.wait_for_every_partition(50)
        if not is_killed:
            victim.resume()
            cluster.wait_settled()
    assert_nothing_lost(load, cluster.bootstrap)
    allowed_s = SESSION_S + Patience(NAMED_MAX_S).limit_s + stalled_s(since_s)
    assert took_s < allowed_s, f"found out after {took_s:.1f} s, {allowed_s:.1f} allowed"
    # A node that dies closes its connections, which its controller and its peers see before its session is over.
    whys = ("lost its connection", "cannot be reached") if is_killed else (f"was silent for {SESSION_S:g} s",)
    found = reasons(cluster, victim)
    assert any(why in reason for reason in found for why in whys), found
    print(f"{'killed' if is_killed else 'hung'} node: found out after {took_s:.2f} s, {allowed_s:.1f} allowed")
