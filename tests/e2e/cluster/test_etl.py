"""A minute of the campaign of copiers (tests/soak/etl): killed as often as the nodes they work with, they copy all once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e.cluster.conftest import ClusterMaker
from tests.soak.etl.campaign import PARTITIONS, Campaign
from tests.soak.etl.copier import BATCH_RECORDS_MAX
from tests.soak.etl.crew import COPIERS
from tests.soak.etl.plan import plan

pytestmark = [pytest.mark.campaign("soak"), pytest.mark.bmq_only, pytest.mark.timeout(240), pytest.mark.safety]

SEED = 7
DURATION_S = 50.0
KILLS_EACH = 2


def test_all_is_copied_once_while_copiers_and_nodes_die(new_cluster: ClusterMaker, tmp_path: Path) -> None:
    cluster = new_cluster(3)
    cluster.add("proxy")
    cluster.start()
    made = plan(SEED, DURATION_S, len(COPIERS), KILLS_EACH, PARTITIONS)
    report = asyncio.run(Campaign(cluster, made, tmp_path / "copiers", say=print).run())
    print(report.text())
    assert report.has_passed, report.violations
    assert report.comparison is not None and report.comparison.lost_or_doubled == 0
    assert report.comparison.source_count > 0
    assert report.copier_kills == KILLS_EACH * len(COPIERS)
    # Each record was committed by a transaction that its copier noted, but for those it died or was refused in, by one each.
    unnoted_max = report.copier_kills + len(report.work.fatal) + sum(report.work.refused.values())
    source_count = report.comparison.source_count
    assert source_count - unnoted_max * BATCH_RECORDS_MAX <= report.work.records <= source_count, report.text()
    assert report.done["move"] > 0 and report.done["kill"] > 0, report.done
