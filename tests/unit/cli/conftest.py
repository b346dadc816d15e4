"""What tests of several commands share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import httpx
import pytest
import typer.main
from structlog.testing import capture_logs

from bmq.cli import cluster_client
from tests.unit.cli.rest_node import Node


@pytest.fixture(autouse=True, scope="session")
def commands_made_once() -> Iterator[None]:
    """To make click's commands of all that Typer was told takes most of the time of a command that asks a fake."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(typer.main.get_command))
        yield


@pytest.fixture(autouse=True)
def no_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of profiles, which is not there: that of the developer stays out of tests."""
    path = tmp_path / "config" / "profiles.json"
    monkeypatch.setenv("BMQ_PROFILES", str(path))
    return path


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    found = Node()
    monkeypatch.setattr(cluster_client, "TRANSPORT", httpx.MockTransport(found.answer))
    with capture_logs():
        yield found
        found.close()
