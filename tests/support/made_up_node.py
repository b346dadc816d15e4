"""A node for the console whose answers are made up, so that a page can be shown any state."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Request, Route

from bmq.console.assets import PAGE, Assets

BASE: Final = "http://console.test"
CLUSTER: Final = {
    "cluster_id": "c",
    "controller_id": 1,
    "nodes": [],
    "topics": 1,
    "partitions": 3,
    "partitions_without_leader": 0,
    "partition_states": {"blocked": 3},
}
Answer = tuple[int, Any]
Maker = Callable[[Request], Answer | None]


class MadeUpNode:
    """Answers by path, without escapes: (status, JSON), or what makes it of a request; None: never. `asked`: requests so far, by path."""

    def __init__(self) -> None:
        self.assets = Assets()
        self.health: Answer = (200, {"ready": True, "problems": [], "why": []})
        self.answers: dict[str, Answer | Maker] = {
            "/v1/cluster": (200, CLUSTER),
            "/v1/history": (200, {"changes": []}),
            "/v1/topics": (200, {"topics": [], "next_after": None}),
            "/v1/topics/t": (200, topic(3)),
        }
        self.asked: list[tuple[str, str]] = []
        self.held: list[Route] = []

    def count(self, method: str, path: str) -> int:
        return self.asked.count((method, path))

    def serve(self, route: Route) -> None:
        path = unquote(urlsplit(route.request.url).path)
        self.asked.append((route.request.method, path))
        if path == "/" or path.startswith("/console/"):
            found = self.assets.named(path.removeprefix("/console/") if path != "/" else PAGE)
            assert found is not None, path
            route.fulfill(body=found.body, content_type=found.content_type)
            return
        answer = self.health if path == "/v1/health" else self.answers.get(path, (404, {"detail": "There is none."}))
        made = answer(route.request) if callable(answer) else answer
        if made is None:
            self.held.append(route)
        else:
            route.fulfill(status=made[0], body=json.dumps(made[1]), content_type="application/json")


def topic(partitions: int) -> dict[str, Any]:
    lines = [
        {"partition": number, "leader": 1, "leader_epoch": 0, "replicas": [1], "isr": [1]}
        for number in range(partitions)
    ]
    return {"name": "t", "topic_id": "id", "is_internal": False, "partitions": lines, "configs": {}}
