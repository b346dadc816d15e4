"""What tests of several commands share."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from structlog.testing import capture_logs

from bmq.cli import cluster_client
from tests.unit.cli.rest_node import Node


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    found = Node()
    monkeypatch.setattr(cluster_client, "TRANSPORT", httpx.MockTransport(found.answer))
    with capture_logs():
        yield found
        found.close()
