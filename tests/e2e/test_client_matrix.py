"""A sample of the clients' part of the conformance run (`make conformance`): proxies, a client's program, the comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.clients.clients import all_clients
from tests.conformance.clients.matrix import as_json, unexplained
from tests.conformance.clients.run import observed_servers, run_clients
from tests.conformance.schemas import API_VERSIONS

pytestmark = [pytest.mark.campaign("kafka"), pytest.mark.timeout(240)]


def test_a_client_does_the_same_at_both_servers_and_every_request_is_seen(tmp_path: Path) -> None:
    clients = [client for client in all_clients() if client.name == "librdkafka"]
    with observed_servers(tmp_path / "servers") as (bmq, kafka):
        runs = run_clients(bmq, kafka, clients, tmp_path / "programs")
    found = as_json(runs)
    assert not unexplained(found)
    used = {one["name"]: one["kafka"] for one in found["clients"][0]["apis"]}
    expected = {"Produce", "Fetch", "JoinGroup", "ConsumerGroupHeartbeat", "TxnOffsetCommit", "EndTxn", "DeleteRecords"}
    assert expected <= set(used)
    for side in (runs[0].bmq, runs[0].kafka):
        # Each connection begins with it, and there is more than one: all of them lead through the proxy.
        assert sum(count for (key, _), count in side.requests.items() if key == API_VERSIONS) > 10
        assert side.outcome["transaction"]["read committed"] == ["first", "second", "fifth"]
        assert side.outcome["consume"]["committed"] == {"0": 15, "1": 1}
