"""Bytes in a query that are no text are refused, and nothing breaks over them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admin.rest.cluster import RestCluster

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("path", ["/v1/health", "/v1/topics", "/v1/nothing"])
@pytest.mark.parametrize("query", [b"\xff", b"limit=\xc3", b"a=%ff"])
async def test_a_query_that_is_no_text(path: str, query: bytes) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": query}
    scope |= {"headers": [], "scheme": "http", "server": ("node", 80), "root_path": ""}
    async with RestCluster() as cluster:
        await cluster.application(scope, receive, send)
    if b"%" in query:
        assert sent[0]["status"] < 500 and sent[0]["status"] != 400
    else:
        assert sent[0]["status"] == 400
        assert b"the query is not UTF-8" in sent[1]["body"]
