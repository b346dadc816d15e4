"""Apache Kafka's own wire tests of share groups, from its test jars, against bmq: none fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import assert_no_traceback
from tests.support.kafka_suite import FAIL, NOT_APPLICABLE, PASS, KafkaSuite

pytestmark = [pytest.mark.campaign("kafka"), pytest.mark.timeout(900), pytest.mark.bmq_only]

SUITES = {
    "kafka.server.ShareFetchAcknowledgeRequestTest": 25,
    "kafka.server.ShareGroupDescribeRequestTest": 2,
    "kafka.server.ShareGroupHeartbeatRequestTest": 8,
    "kafka.server.ShareGroupHeartbeatRequestTest$WithAssignmentBatchingDisabledTest": 8,
}
"""Of each class so many tests pass."""

NOT_FOR_BMQ = {
    "testGroupCoordinatorChange": "stops one of several brokers",
    "testShareFetchRequestToNonLeaderReplica": "needs 2 brokers, each leading some partitions",
    "testShareFetchRequestSuccessMultiplePartitionsMultipleBrokers": "needs 3 brokers, each leading some partitions",
}
"""Why a test does not apply: each node of bmq serves every partition, and a server under test is one node."""


@pytest.mark.parametrize("suite", SUITES)
def test_no_test_of_kafka_fails(tmp_path: Path, suite: str) -> None:
    results = KafkaSuite(tmp_path).run(suite, on_stop=assert_no_traceback)
    failed = [f"{one.test}: {one.reason}" for one in results if one.outcome == FAIL]
    assert not failed, "\n".join(failed)
    for one in results:
        if one.outcome == NOT_APPLICABLE:
            name = one.test.split(".")[-1].split(" ")[0]
            assert NOT_FOR_BMQ.get(name, "not listed") in one.reason, one
    assert sum(one.outcome == PASS for one in results) == SUITES[suite], results
