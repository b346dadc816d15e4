"""The query service: an HTTP process beside the nodes, which forward `POST /v1/indexes/NAME/query` to it.

Each query has a thread and an engine of its own; a bounded number runs, a bounded number waits, more are refused. Nodes
authenticate and authorize clients. Who may reach this process may read all topics of its indexes: it listens on the loopback
address, or asks for a token.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import queue
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol
from urllib.parse import quote

import httpx
import structlog
from fastapi import FastAPI, Request, Response

from bmq.index.errors import QueryFailed, QueryRefused, SourceAway, TooManyQueries, UnknownIndex
from bmq.index.query import IndexQuery
from bmq.index.stored_index import stored_index
from bmq.protocol.errors import BmqError
from bmq.rest_client.client import RestClient
from bmq.rest_client.login import LoginUnusable
from bmq.table_definitions.stored import StoredTable

BODY_BYTES_MAX: Final = 1024 * 1024
_PROBLEM: Final = "application/problem+json"
_NOT_FOUND: Final = 404
_OK: Final = 200

_log = structlog.get_logger("bmq.index")


class Engine(Protocol):
    """What the service needs of bmq.index.engine.QueryEngine."""

    def query(self, stored: StoredTable, query: IndexQuery) -> Any: ...

    def close(self) -> None: ...


class Definitions:
    """Indexes as a node tells them. Thread-safe."""

    def __init__(self, client: RestClient) -> None:
        self._client = client

    def of(self, name: str) -> StoredTable:
        """Raises UnknownIndex, SourceAway."""
        try:
            answer = self._client.request("GET", f"/v1/tables/{quote(name, safe='')}")
        except (httpx.HTTPError, LoginUnusable) as error:
            raise SourceAway(f"index {name} cannot be asked for at {self._client.url}: {error}") from error
        if answer.status_code == _NOT_FOUND:
            raise UnknownIndex(f"there is no index {name}")
        if answer.status_code != _OK:
            raise SourceAway(f"index {name} cannot be asked for: {self._client.url} answers {answer.status_code}")
        try:
            return stored_index(answer.json())
        except ValueError:
            raise SourceAway(f"index {name} cannot be asked for: {self._client.url} is no node of bmq") from None


class QueryPool:
    """Runs queries in threads. `queries_max` at once, `waiting_max` wait, more are refused."""

    def __init__(
        self, make_engine: Callable[[], Engine], definitions: Definitions, *, queries_max: int, waiting_max: int
    ) -> None:
        """Makes all engines at once. Raises what `make_engine` raises."""
        self._definitions = definitions
        self._left = queries_max + waiting_max
        self._engines: queue.SimpleQueue[Engine] = queue.SimpleQueue()
        self._made = [make_engine() for _ in range(queries_max)]
        for engine in self._made:
            self._engines.put(engine)
        self._threads = ThreadPoolExecutor(queries_max, thread_name_prefix="bmq-index-query")

    async def query(self, name: str, query: IndexQuery) -> bytes:
        """The answer as JSON. Raises QueryFailed."""
        if self._left <= 0:
            raise TooManyQueries("too many queries are running or waiting; ask again in a moment")
        self._left -= 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, name, query)
        finally:
            self._left += 1

    def close(self) -> None:
        """Waits for running queries, which have a time limit."""
        self._threads.shutdown(cancel_futures=True)
        for engine in self._made:
            engine.close()

    def _answer(self, name: str, query: IndexQuery) -> bytes:
        stored = self._definitions.of(name)
        engine = self._engines.get_nowait()  # one for each thread
        try:
            return json.dumps(engine.query(stored, query).to_json()).encode()
        finally:
            self._engines.put(engine)


def index_service(pool: QueryPool, token: str | None) -> FastAPI:
    """`token`: that requests have to have as bearer token; None: anybody who reaches the address may ask."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(pool.close)

    app = FastAPI(title="bmq index", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)

    @app.get("/v1/health")
    async def health() -> dict[str, bool]:
        return {"ready": True}

    @app.post("/v1/indexes/{name}/query")
    async def query(name: str, request: Request) -> Response:
        given = request.headers.get("authorization", "")
        if token is not None and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return _problem(401, "name the service's token: --token-file, or index_service.token_file of the node")
        try:
            found = await pool.query(name, IndexQuery.from_json(await _body(request)))
        except QueryFailed as error:
            return _problem(error.status, str(error))
        except BmqError as error:
            return _problem(503, str(error))
        except Exception:  # noqa: BLE001 any bug is answered and logged
            _log.exception("query_failed", index=name)
            return _problem(500, "the query failed because of a fault in bmq; its log has the details")
        return Response(found, media_type="application/json")

    return app


async def _body(request: Request) -> bytes:
    """Raises QueryRefused."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise QueryRefused(f"the query has more than {BODY_BYTES_MAX} bytes")
    return bytes(body)


def _problem(status: int, detail: str) -> Response:
    form = {"type": "about:blank", "title": "The query failed", "status": status, "detail": detail}
    return Response(json.dumps(form), status, media_type=_PROBLEM)
