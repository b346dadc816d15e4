"""The query service over HTTP: answers, refusals as problem documents, tokens, bounds."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bmq.index.engine import EngineLimits
from bmq.index.errors import (
    IndexMismatch,
    QueryFailed,
    QueryRefused,
    QueryTimedOut,
    QueryTooWide,
    SourceAway,
    TooManyQueries,
    UnknownIndex,
)
from bmq.index.query import IndexQuery
from bmq.index.service import BODY_BYTES_MAX, Definitions, QueryPool, index_service
from bmq.index.serving import CannotServe, ServeSettings, required_token, server_config
from bmq.rest_client.client import RestClient
from bmq.security.loopback import is_loopback_host
from bmq.table_definitions.stored import StoredTable
from tests.support.waiting import until
from tests.unit.index.indexes import index_definition, stored_index

pytestmark = pytest.mark.unit

STORED = stored_index(index_definition())


class Answered:
    def __init__(self, query: IndexQuery) -> None:
        self.query = query

    def to_json(self) -> dict[str, Any]:
        return {"limit": self.query.limit}


class FakeEngine:
    """Answers with the query's limit, or fails; waits while `gate` is closed."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.is_closed = False

    def query(self, stored: StoredTable, query: IndexQuery) -> Answered:
        self.gate.wait(30)
        if self.failure is not None:
            raise self.failure
        return Answered(query)

    def close(self) -> None:
        self.is_closed = True


def node(request: httpx.Request) -> httpx.Response:
    """A node that has one index; `away` answers 503, `other` is no node."""
    name = request.url.path.rpartition("/")[2]
    match name:
        case "orders_index":
            form = json.loads(STORED.to_text())
            return httpx.Response(
                200, json={key: form[key] for key in ("table_id", "topic_id", "version", "definition")}
            )
        case "away":
            return httpx.Response(503, json={"detail": "not yet"})
        case "other":
            return httpx.Response(200, text="<html>")
        case _:
            return httpx.Response(404, json={"detail": "none"})


class Service:
    def __init__(self, *, token: str | None = None, waiting_max: int = 1) -> None:
        self.engine = FakeEngine()
        definitions = Definitions(RestClient("http://node", timeout=5.0, transport=httpx.MockTransport(node)))
        self.pool = QueryPool(lambda: self.engine, definitions, queries_max=1, waiting_max=waiting_max)
        transport = httpx.ASGITransport(index_service(self.pool, token))
        self.client = httpx.AsyncClient(transport=transport, base_url="http://service")

    async def ask(self, name: str = "orders_index", body: bytes = b"{}", **headers: str) -> httpx.Response:
        return await self.client.post(f"/v1/indexes/{name}/query", content=body, headers=headers)


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    yield made
    await made.client.aclose()
    made.pool.close()
    assert made.engine.is_closed


async def test_an_answer(service: Service) -> None:
    assert (await service.ask(body=b'{"limit":7}')).json() == {"limit": 7}
    assert (await service.client.get("/v1/health")).json() == {"ready": True}


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (QueryRefused("no"), 422),
        (QueryTooWide("no"), 422),
        (IndexMismatch("no"), 409),
        (QueryTimedOut("no"), 504),
        (SourceAway("no"), 503),
    ],
)
async def test_failures_are_problem_documents(service: Service, failure: QueryFailed, status: int) -> None:
    service.engine.failure = failure
    answer = await service.ask()
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == "no"
    service.engine.failure = None
    assert (await service.ask()).status_code == 200


async def test_a_fault_is_not_shown(service: Service) -> None:
    service.engine.failure = RuntimeError("a secret")
    answer = await service.ask()
    assert answer.status_code == 500
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("name", "body", "status", "sentence"),
    [
        ("nothing", b"{}", 404, "there is no index nothing"),
        ("away", b"{}", 503, "answers 503"),
        ("other", b"{}", 503, "is no node of bmq"),
        ("orders_index", b"no JSON", 422, "the query: it is no JSON"),
        ("orders_index", b"[]", 422, "the query: Input should be an object"),
        ("orders_index", b'{"x":1}', 422, "there is no key x"),
        ("orders_index", b" " * (BODY_BYTES_MAX + 1), 422, "the query has more than"),
    ],
)
async def test_bad_requests(service: Service, name: str, body: bytes, status: int, sentence: str) -> None:
    answer = await service.ask(name, body)
    assert answer.status_code == status, answer.text
    assert sentence in answer.json()["detail"]


async def test_more_queries_than_may_wait_are_refused(service: Service) -> None:
    service.engine.gate.clear()
    first, second = (asyncio.ensure_future(service.ask()) for _ in range(2))
    await until(lambda: service.pool._left == 0)
    refused = await service.ask()
    assert (refused.status_code, refused.json()["detail"]) == (
        TooManyQueries.status,
        "too many queries are running or waiting; ask again in a moment",
    )
    service.engine.gate.set()
    assert [(await each).status_code for each in (first, second)] == [200, 200]
    assert (await service.ask()).status_code == 200


async def test_a_token_is_asked_for() -> None:
    service = Service(token="secret")
    assert (await service.ask()).status_code == 401
    assert (await service.ask(authorization="Bearer other")).status_code == 401
    assert (await service.ask(authorization="Bearer secret")).status_code == 200
    await service.client.aclose()
    service.pool.close()


def test_an_address_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    assert required_token("127.0.0.1", None) is None
    assert [is_loopback_host(each) for each in ("localhost", "::1", "[::1]", "0.0.0.0", "10.0.0.1", "host")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    with pytest.raises(CannotServe, match=r"name --token-file, or listen on 127\.0\.0\.1"):
        required_token("0.0.0.0", None)
    file = tmp_path / "token"
    with pytest.raises(CannotServe, match="cannot be read: No such file"):
        required_token("0.0.0.0", file)
    file.write_text("\nsecret")
    with pytest.raises(CannotServe, match="has no token in its first line"):
        required_token("0.0.0.0", file)
    file.write_text("secret\nmore\n")
    assert required_token("0.0.0.0", file) == "secret"


def test_the_process_ends_soon_after_its_last_query_can() -> None:
    settings = ServeSettings(
        host="127.0.0.1",
        port=0,
        warehouse="/warehouse",
        kafka={},
        token_file=None,
        queries_max=1,
        waiting_max=1,
        limits=EngineLimits(timeout_s=30.0),
    )

    async def application(scope: object, receive: object, send: object) -> None: ...

    assert server_config(settings, application).timeout_graceful_shutdown == 35


def test_an_unknown_index_is_not_found() -> None:
    definitions = Definitions(RestClient("http://node", timeout=5.0, transport=httpx.MockTransport(node)))
    with pytest.raises(UnknownIndex):
        definitions.of("nothing")
    assert definitions.of("orders_index").definition == STORED.definition
