"""The benchmark of walks counts what a server calls for each of its requests."""

from __future__ import annotations

import pytest

from bench.micro_walks import recorded_server, walks
from testing.processes import REPOSITORY

pytestmark = [pytest.mark.campaign("bench"), pytest.mark.timeout(120)]


def test_every_request_is_answered_and_counted() -> None:
    with recorded_server(REPOSITORY) as server:
        found = walks(server)
    assert list(found) == ["CreateTopics", "Produce", "Fetch", "OffsetCommit", "Heartbeat"]
    assert all(10 < walk.files < walk.calls for walk in found.values())
    # A topic takes an entry in the metadata log, a heartbeat nothing of the kind.
    assert found["CreateTopics"].calls > 5 * found["Heartbeat"].calls
