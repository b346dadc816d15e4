"""The drills of docs/OPERATIONS.md about upgrades: nodes of two releases side by side, feature levels up and down, and back."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from testing.java import FEATURES, java_command
from testing.processes import REPOSITORY
from testing.steady_load import assert_nothing_lost
from tests.e2e.cluster.conftest import ClusterMaker, TopicMaker
from tests.e2e.cluster.test_refused_nodes import refusal
from tests.support.older_release import change_release, choose_release, unpack_older_release
from tests.support.paced_load import producing
from tests.support.page_commands import run_page

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(480)]

PARTITIONS = 3
RECORDS_S = 100


def test_an_upgrade_node_by_node_and_back(new_cluster: ClusterMaker, make_topic: TopicMaker, tmp_path: Path) -> None:
    older = unpack_older_release(tmp_path / "older")
    tools = tmp_path / "bin"
    tools.mkdir()
    features = tools / "kafka-features.sh"
    features.write_text(f'#!/bin/bash\nexec {shlex.join(java_command(FEATURES, ()))} "$@"\n')
    features.chmod(0o755)
    cluster = new_cluster(3)
    for node in cluster.nodes.values():
        choose_release(node, older)
    cluster.start()
    topic = make_topic(cluster, PARTITIONS)
    with producing(cluster.bootstrap, topic, PARTITIONS, records_s=RECORDS_S) as load:

        def go_to(release: Path, *node_ids: int) -> None:
            """As the page says: one node, then a look, then the next."""
            for node_id in node_ids:
                change_release(cluster.node(node_id), release)
                cluster.wait_settled()
                run_page("Drill: an upgrade, and back", tools, REST=f"http://{cluster.node(node_id).rest}")
                load.wait_for_every_partition(20)

        go_to(REPOSITORY, 1, 2)
        go_to(older, 2, 1)
        go_to(REPOSITORY, 1, 2, 3)
        said = run_page("Drill: feature levels after an upgrade", tools, BOOTSTRAP=cluster.bootstrap)
        assert "bmq.metadata.version was upgraded to 2." in said, said
        assert "share.version was downgraded to 1." in said and "share.version was upgraded to 2." in said, said
        load.wait_for_every_partition(20)

        late = cluster.node(3)
        late.stop()
        choose_release(late, older)
        assert "supports bmq.metadata.version 1 to 1 and the cluster's is 2" in refusal(late)
        change_release(late, REPOSITORY)
        cluster.wait_settled()
        load.wait_for_every_partition(20)
    print(f"longest gap of a partition: {load.longest_gap_s:.2f} s")
    assert_nothing_lost(load, cluster.bootstrap)
