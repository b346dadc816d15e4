"""The page of log events: the newest ones, then those that follow, by level and name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bmq.admin.recent_logs import RecentLogs
from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit


class Logging(RestCluster):
    def __init__(self, lines_max: int = 100) -> None:
        super().__init__()
        self.logs = RecentLogs(lambda: 5, lambda text: text.replace("geheim", "(hidden)"), lines_max=lines_max)

    def log(self, event: str, level: str = "info", **fields: Any) -> None:
        self.logs.keep(json.dumps({**fields, "event": event, "level": level, "timestamp": "2026-01-01T00:00:00Z"}))


def names(page: Any) -> list[str]:
    return [one["event"] for one in page["events"]]


async def test_the_newest_events_and_those_that_follow() -> None:
    async with Logging() as cluster:
        for number in range(5):
            cluster.log(f"event_{number}", topic="orders", why="geheim")
        page = await cluster.get("/v1/logs", limit=2)
        assert names(page) == ["event_3", "event_4"]
        assert page["events"][0] == {
            "number": 5_003,
            "at": "2026-01-01T00:00:00Z",
            "level": "info",
            "event": "event_3",
            "fields": {"topic": "orders", "why": "(hidden)"},
        }
        assert (page["node_id"], page["next_after"], page["is_end"], page["is_complete"]) == (1, 5_004, True, True)
        nothing = await cluster.get("/v1/logs", after=page["next_after"])
        assert nothing["events"] == [] and nothing["next_after"] == 5_004
        for number in range(5, 9):
            cluster.log(f"event_{number}")
        page = await cluster.get("/v1/logs", after=nothing["next_after"], limit=3)
        assert names(page) == ["event_5", "event_6", "event_7"] and not page["is_end"]
        assert names(await cluster.get("/v1/logs", after=page["next_after"])) == ["event_8"]


async def test_events_are_chosen_by_level_and_name() -> None:
    async with Logging() as cluster:
        for level in ("debug", "info", "warning", "error"):
            cluster.log(f"it_{level}s", level)
        assert names(await cluster.get("/v1/logs", level="warning")) == ["it_warnings", "it_errors"]
        assert names(await cluster.get("/v1/logs", event="_in")) == ["it_infos"]
        page = await cluster.get("/v1/logs", level="error", after=5_000)
        assert names(page) == ["it_errors"] and page["is_end"]
        page = await cluster.get("/v1/logs", level="error", after=5_003)
        assert page["events"] == [] and page["next_after"] == 5_003
        await cluster.get("/v1/logs", 422, level="loud")
        await cluster.get("/v1/logs", 422, limit=501)


async def test_a_gap_is_told() -> None:
    async with Logging(lines_max=2) as cluster:
        for number in range(5):
            cluster.log(f"event_{number}")
        assert (await cluster.get("/v1/logs", after=5_002))["is_complete"]
        page = await cluster.get("/v1/logs", after=5_001)
        assert names(page) == ["event_3", "event_4"] and not page["is_complete"]
        ahead = await cluster.get("/v1/logs", after=9_000)
        assert names(ahead) == ["event_3", "event_4"] and not ahead["is_complete"], "the clock was set back"


async def test_without_any_event_and_without_logs() -> None:
    async with Logging() as cluster:
        page = await cluster.get("/v1/logs")
        assert page["events"] == [] and page["next_after"] == -1 and page["is_end"]
        cluster.logs = None  # type: ignore[assignment]
        assert "keeps no log events" in (await cluster.get("/v1/logs", 503))["detail"]
