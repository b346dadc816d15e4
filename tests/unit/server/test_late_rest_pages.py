"""The pages are built for the first request that needs them: the health never waits for them, everything else does."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator

import httpx
import pytest

from bmq.admin.health import HealthReason, Severity
from bmq.admin.rest.principals import STRANGER
from bmq.server.late_rest_pages import Application, Receive, RestPages, Scope, Send

pytestmark = pytest.mark.unit


class Built:
    """What `build` gives once it is let go; it answers 200 with its own name."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.has_begun = threading.Event()
        self.times = 0
        self.is_ready = False
        self.why: list[HealthReason] = []
        self.pages = RestPages(self.build, lambda: self.is_ready, lambda: self.why)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app=self.pages), base_url="http://node")

    def build(self) -> Application:
        self.times += 1
        self.has_begun.set()
        self.may_end.wait(30)
        return self.answer

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"the pages"})


@pytest.fixture
async def built() -> AsyncIterator[Built]:
    built = Built()
    yield built
    built.may_end.set()
    await built.client.aclose()
    await built.pages.close()


async def test_the_health_neither_waits_for_the_pages_nor_has_them_built(built: Built) -> None:
    starting = await built.client.get("/v1/health")
    built.is_ready = True
    ready = await built.client.get("/v1/health")
    await built.client.get("/v1/health/live")
    assert built.times == 0
    asked = asyncio.create_task(built.client.get("/v1/cluster"))
    await asyncio.to_thread(built.has_begun.wait, 30)
    assert (await built.client.get("/v1/health")).json() == ready.json()
    built.may_end.set()
    assert (await asked).text == "the pages"
    assert (starting.status_code, starting.json()) == (503, {"ready": False})
    assert (ready.status_code, ready.json()) == (200, {"ready": True})
    assert ready.headers["content-type"] == "application/json"


async def test_the_health_says_why_before_there_are_pages(built: Built) -> None:
    built.why = [HealthReason("waits", Severity.NOT_READY, "It waits.", "Wait.")]
    told = {"code": "waits", "severity": "not_ready", "what": "It waits.", "what_to_do": "Wait."}
    assert (await built.client.get("/v1/health")).json() == {"ready": False, "why": [told]}
    live = await built.client.get("/v1/health/live")
    assert (live.status_code, live.json()) == (200, {"live": True})


async def test_strangers_are_not_told_why() -> None:
    built = Built()
    built.why = [HealthReason("waits", Severity.NOT_READY, "It waits.", "Wait.")]

    async def by_a_stranger(scope: Scope, receive: Receive, send: Send) -> None:
        await built.pages({**scope, STRANGER: True}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=by_a_stranger), base_url="http://node") as client:
        assert (await client.get("/v1/health")).json() == {"ready": False}
    await built.client.aclose()


async def test_everything_else_waits_and_is_answered_by_the_pages(built: Built) -> None:
    asked = [asyncio.create_task(built.client.get(path)) for path in ("/v1/cluster", "/metrics")]
    asked.append(asyncio.create_task(built.client.post("/v1/health")))
    await asyncio.to_thread(built.has_begun.wait, 30)
    assert not any(task.done() for task in asked)
    built.may_end.set()
    assert [answer.text for answer in await asyncio.gather(*asked)] == ["the pages"] * 3
    assert (await built.client.get("/v1/health")).text == "the pages"
    assert built.times == 1


async def test_the_console_is_drawn_while_the_pages_are_built(built: Built) -> None:
    page = await built.client.get("/")
    assert built.has_begun.wait(30), "what the console asks for next is on its way"
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["content-encoding"] == "gzip" and "console/" in page.text
    script = re.search(r"\"(console/[^\"]+\.js)\"", page.text)
    assert script is not None
    assert (await built.client.head(f"/{script[1]}")).status_code == 200
    again = await built.client.get("/", headers={"if-none-match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    unknown = [
        asyncio.create_task(built.client.get(path))
        for path in ("/console/none.js", "/console/../pyproject.toml", "/console")
    ]
    built.may_end.set()
    assert [answer.text for answer in await asyncio.gather(*unknown)] == ["the pages"] * 3
    assert (await built.client.get("/")).text == "the pages"
    assert built.times == 1


async def test_a_caller_that_leaves_does_not_end_the_building(built: Built) -> None:
    asked = asyncio.create_task(built.client.get("/v1/cluster"))
    await asyncio.to_thread(built.has_begun.wait, 30)
    asked.cancel()
    await asyncio.wait({asked})
    built.may_end.set()
    assert (await built.client.get("/v1/cluster")).text == "the pages"
    assert built.times == 1
