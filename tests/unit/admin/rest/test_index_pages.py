"""Queries on indexes through a node: whose right is asked for, what is forwarded, and what the service's failures become."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from bmq.admin.index_queries import ANSWER_BYTES_MAX, QUERIES_MAX, IndexQueries, IndexServiceAway, IndexServiceSettings
from bmq.admin.rest.authorization import RIGHTS
from bmq.admin.rest.index_pages import index_pages
from bmq.admin.rest.problems import handle_problems
from bmq.admin.rest.sources import RestSources
from tests.unit.admin.rest.cluster import RestCluster
from tests.unit.index.indexes import index_definition, stored_index

pytestmark = pytest.mark.unit

PATH = "/v1/indexes/orders_index/query"
SETTINGS = IndexServiceSettings(url="http://service:8090")


def service(
    answer: Callable[[httpx.Request], httpx.Response], settings: IndexServiceSettings = SETTINGS
) -> IndexQueries:
    return IndexQueries(settings, httpx.MockTransport(answer))


class Node:
    """The page alone, on an image with an index and a table."""

    def __init__(self, queries: IndexQueries | None, *, may_read: bool = True) -> None:
        plain = stored_index(index_definition(name="plain", index=None)).to_text()
        tables = {"orders_index": stored_index(index_definition()).to_text(), "plain": plain}
        image = replace(RestCluster().image, tables=tables)
        registry = CollectorRegistry()
        sources = RestSources(lambda: True, lambda: image, dict, registry, index_queries=lambda: queries)
        app = FastAPI()
        app.include_router(index_pages(sources))
        handle_problems(app)
        self.asked: list[tuple[Any, str]] = []

        class Rights:
            def has(_, right: Any, parameters: Any, *, is_quiet: bool = False) -> bool:  # noqa: N805
                self.asked.append((right.operation, parameters[right.topic]))
                return may_read

        async def with_rights(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "bmq.rights": Rights()}, receive, send)

        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(with_rights), base_url="http://node")

    async def ask(self, form: Any = None, path: str = PATH) -> httpx.Response:
        async with self.client:
            return await self.client.post(path, json=form or {})


async def test_a_query_is_forwarded_and_its_answer_comes_back_as_it_is() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, content=b'{"rows":  []}')

    node = Node(service(answer))
    answered = await node.ask({"equals": {"city": "Bern"}, "limit": 5})
    assert (answered.status_code, answered.content) == (200, b'{"rows":  []}')
    assert str(seen[0].url) == "http://service:8090/v1/indexes/orders_index/query"
    assert json.loads(seen[0].content) == {"equals": {"city": "Bern"}, "limit": 5}
    assert "authorization" not in seen[0].headers
    assert [(operation.name, topic) for operation, topic in node.asked] == [("READ", "orders")]


@pytest.mark.parametrize("status", [404, 409, 422, 503, 504])
async def test_refusals_of_the_service_are_the_nodes(status: int) -> None:
    refused = await Node(service(lambda _: httpx.Response(status, json={"detail": "too wide"}))).ask()
    assert (refused.status_code, refused.json()["detail"]) == (status, "too wide")
    assert refused.headers["content-type"] == "application/problem+json"


async def test_a_service_that_refuses_the_token_is_a_bad_gateway() -> None:
    refused = await Node(service(lambda _: httpx.Response(401, json={"detail": "the token is abc"}))).ask()
    assert refused.status_code == 502
    assert "abc" not in refused.text


async def test_a_denied_query_is_not_forwarded() -> None:
    forwarded: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        forwarded.append(request)
        return httpx.Response(200)

    node = Node(service(answer), may_read=False)
    denied = await node.ask()
    assert (denied.status_code, denied.json()["detail"]) == (
        403,
        "there is no right to READ on topic orders of index orders_index",
    )
    assert forwarded == []


@pytest.mark.parametrize(
    ("path", "queries", "status", "sentence"),
    [
        ("/v1/indexes/nothing/query", None, 404, "there is no table nothing"),
        ("/v1/indexes/plain/query", None, 422, "plain is a table without an index"),
        (PATH, None, 503, "forwards no queries"),
        (PATH, IndexQueries(IndexServiceSettings()), 503, "start `bmq index serve`, and name it in index_service.url"),
    ],
)
async def test_what_cannot_be_asked(path: str, queries: IndexQueries | None, status: int, sentence: str) -> None:
    refused = await Node(queries).ask(path=path)
    assert refused.status_code == status
    assert sentence in refused.json()["detail"]


async def test_a_service_that_is_away_is_one_sentence() -> None:
    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    refused = await Node(service(away)).ask()
    assert (refused.status_code, refused.json()["detail"]) == (
        503,
        "the query service http://service:8090 does not answer: refused",
    )


async def test_the_token_is_read_for_each_query(tmp_path: Path) -> None:
    file = tmp_path / "token"
    tokens: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        tokens.append(request.headers["authorization"])
        return httpx.Response(200, content=b"{}")

    queries = service(answer, IndexServiceSettings(url="http://service", token_file=str(file)))
    with pytest.raises(IndexServiceAway, match="token_file cannot be read"):
        await queries.ask("orders_index", b"{}")
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        assert (await queries.ask("orders_index", b"{}"))[0] == 200
    assert tokens == ["Bearer one", "Bearer two"]


async def test_an_answer_is_bounded() -> None:
    queries = service(lambda _: httpx.Response(200, content=b"x" * (ANSWER_BYTES_MAX + 1)))
    with pytest.raises(IndexServiceAway, match="ask for a smaller limit"):
        await queries.ask("orders_index", b"{}")


async def test_queries_under_way_are_bounded() -> None:
    queries = service(lambda _: httpx.Response(200))
    queries._under_way = QUERIES_MAX
    with pytest.raises(IndexServiceAway, match="are under way at this node"):
        await queries.ask("orders_index", b"{}")


class TricklingAnswer(httpx.AsyncByteStream):
    """Sends a byte in each turn of the loop, for ever: no single read takes long."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0)
            yield b"x"


async def test_an_answer_that_trickles_gives_its_place_back() -> None:
    settings = IndexServiceSettings(url="http://service", timeout_ms=100)
    queries = service(lambda _: httpx.Response(200, stream=TricklingAnswer()), settings)
    with pytest.raises(IndexServiceAway, match="has not answered within 100 ms"):
        await queries.ask("orders_index", b"{}")
    assert queries._under_way == 0


def test_what_answers_may_hold_in_memory() -> None:
    assert ANSWER_BYTES_MAX * QUERIES_MAX <= 64 * 1024 * 1024


def test_the_path_has_its_line_among_the_rights() -> None:
    assert ("POST", "/v1/indexes/{name}/query") in RIGHTS
    with pytest.raises(ValueError, match="url"):
        IndexServiceSettings(url="ftp://service")
    with pytest.raises(ValueError, match="url"):
        IndexServiceSettings(url="http://user:password@service")
