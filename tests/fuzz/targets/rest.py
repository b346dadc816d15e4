"""Requests to the REST API, in process through its ASGI application."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from starlette.types import Message

from tests.fuzz.mutation import changed
from tests.fuzz.target import Target
from tests.unit.admin.rest.cluster import RestCluster, application

WAIT_S: Final = 10.0
_METHODS: Final = ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "TRACE")
_SEPARATOR: Final = b"\n"
_SERVED: Final = {
    path: tuple(number for number, name in enumerate(_METHODS[:4]) if name.lower() in served)
    for path, served in application().openapi()["paths"].items()
}
"""The methods of each path."""
_PATHS: Final = tuple(_SERVED)
_KNOWN: Final = {
    "name": "orders",
    "number": "0",
    "node_id": "2",
    "task_id": "0123456789abcdef",
    "reservation": "0123456789abcdef",
}
_BODIES: Final = (
    b"",
    b"{}",
    b"null",
    b"[]",
    b'{"replicas": [2]}',
    b'{"role": "broker", "count": 2}',
    b'{"name": "t", "topic": "orders", "value": {"format": "json", "columns": []}}',
    b'{"a": 1e400}',
    b"[" * 2000,
    b'{"count": ' + b"9" * 3000 + b"}",
    b'"\\ud800"',
    b'{"dry_run": true, "dry_run": 1}',
)
_LISTINGS: Final = (b"/v1/topics", b"/v1/history", b"/v1/redrives", b"/v1/tasks")
_EXPLAINED: Final = (
    b'{"filter": "tag = \'a\'"}',
    b'{"filter": "tag IN (\'a\', \'b\')", "record": {"headers": [{"name": "bmq-tag", "value": "a"}]}}',
    b'{"filter": "key LIKE \'a%\' OR NOT offset < 5", "record": {"key": "ab", "offset": 7, "partition": 1}}',
    b'{"filter": "timestamp BETWEEN 1 AND 5", "record": {"timestamp_ms": 3}}',
    b'{"filter": "\\"x-region\\" IS NULL", "record": {"headers": [{"name": "x-region", "value": null}]}}',
    b'{"filter": "partition = 0 AND (tag IS NOT NULL)"}',
)
"""What a filter does with a record, at /v1/views/explain."""
_QUERIES: Final = (
    b"",
    b"dry_run=true",
    b"after=0&wait_ms=0",
    b"limit=-1",
    b"limit=99999999999999999999",
    b"%ff=%00",
    b"a" * 300,
)
_HEADERS: Final = ((b"content-type", b"application/json"), (b"idempotency-key", b"k"), (b"host", b"node"))
_loop: Final = asyncio.new_event_loop()
atexit.register(_loop.close)


def check(data: bytes) -> bool:
    """A byte for the method, then path, query and key in a line each, and the body. No answer is 500 or above 503."""
    if not data:
        return False
    lines = [*data[1:].split(_SEPARATOR, 3), b"", b"", b""]
    status = _loop.run_until_complete(_asked(_METHODS[data[0] % len(_METHODS)], *lines[:4]))
    assert status < 500 or status == 503, f"the answer has status {status}"
    return status < 400


async def _asked(method: str, path: bytes, query: bytes, key: bytes, body: bytes) -> int:
    headers = [*_HEADERS, (b"idempotency-key", key)] if key else list(_HEADERS[::2])
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path.decode("utf-8", "replace"),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
    }
    parts = [body[: len(body) // 2], body[len(body) // 2 :]]
    sent: list[Message] = []

    async def receive() -> Message:
        if not parts:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: Message) -> None:
        sent.append(message)

    async with RestCluster() as cluster, asyncio.timeout(WAIT_S):
        await cluster.application(scope, receive, send)
    assert sent[0]["type"] == "http.response.start" and not sent[-1].get("more_body"), "the answer has no end"
    return int(sent[0]["status"])


def seeds() -> Iterator[bytes]:
    for path, served in _SERVED.items():
        for number in served:
            for body in _BODIES[: 7 if number else 1]:
                yield _request(number, _filled(path), b"", b"", body)
    for path in _LISTINGS:
        for query in (b"limit=5", b"limit=1"):
            yield _request(0, path, query, b"", b"")
    for body in _EXPLAINED:
        yield _request(1, b"/v1/views/explain", b"", b"", body)


def mutate(data: bytes, dice: Random) -> bytes:
    """Another request to one of the paths, or a change of one of its lines."""
    if len(data) < 2 or not dice.randrange(4):
        path = _filled(dice.choice(_PATHS))
        return _request(dice.randrange(4), path, dice.choice(_QUERIES), dice.choice((b"", b"k")), dice.choice(_BODIES))
    lines = [*data[1:].split(_SEPARATOR, 3), b"", b"", b""][:4]
    place = dice.choice((0, 1, 2, 3, 3, 3))
    lines[place] = changed(lines[place], dice, (*_BODIES, *_QUERIES))
    return _request(data[0], *lines)


def _filled(path: str) -> bytes:
    for name, value in _KNOWN.items():
        path = path.replace("{" + name + "}", value)
    return path.encode()


def _request(method: int, path: bytes, query: bytes, key: bytes, body: bytes) -> bytes:
    return bytes([method]) + _SEPARATOR.join((path, query, key, body))


TARGET: Final = Target("rest", seeds, check, ("bmq.admin", "bmq.table_definitions"), mutate)
