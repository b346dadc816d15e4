"""The HTTP door: `POST /v1/channels/NAME` for one record or many, `/v1/health`, `/v1/status` and `/metrics`.

The body of `application/octet-stream` (or of no type) is the value of one record; its key is the query's `key` or the header
`X-Bmq-Key`, and `X-Bmq-Header-NAME` are its headers. `application/x-ndjson` has a record in each line: an object with
`value`, and `key`, `headers` and `timestamp_ms` if wanted, as `bmq topic consume --json` writes them. All lines are taken, or none.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import ClientDisconnect

from bmq.databus.doors.bearer_token import token_fault
from bmq.databus.doors.gathered_answers import GatheredAnswers
from bmq.databus.doors.json_lines import BadLine, records_of_lines
from bmq.databus.intake import Intake
from bmq.databus.intake_record import NewRecord
from bmq.databus.record_fields import BadFields, encoded_headers
from bmq.databus.rules import Refusal
from bmq.databus.settings import AgentSettings
from bmq.databus.socket_frame import Code
from bmq.protocol.errors import BmqError

HEADER_PREFIX: Final = "x-bmq-header-"
BODIES_MAX: Final = 64
"""Requests whose bodies are held at the same time."""
_LINES: Final = frozenset({"application/x-ndjson", "application/jsonl", "application/json-lines"})
_STATUS: Final = {
    Code.RETRY: 429,
    Code.UNKNOWN_CHANNEL: 404,
    Code.CHANNEL_DISABLED: 409,
    Code.RECORD_TOO_LARGE: 413,
    Code.BAD_VALUE: 422,
    Code.TOPIC_REFUSED: 409,
    Code.DROPPED: 200,
}


def http_door(
    intake: Intake, settings: AgentSettings, registry: CollectorRegistry, status: Callable[[], dict[str, Any]]
) -> FastAPI:
    """The application. `status`: what `/v1/status` shows; its `is_producing` decides what `/v1/health` says."""
    app = FastAPI(title="bmq Databus agent", docs_url=None, redoc_url=None, openapi_url="/v1/openapi.json")
    bodies = asyncio.Semaphore(BODIES_MAX)

    @app.middleware("http")
    async def logged_in(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        if settings.http_token_file and request.url.path != "/v1/health":
            why = token_fault(request.headers.get("authorization", ""), settings.http_token_file)
            if why:
                return _problem(401, why, {"WWW-Authenticate": "Bearer"})
        return await call_next(request)

    @app.post("/v1/channels/{name}")
    async def produce(
        request: Request,
        name: str,
        key: Annotated[str | None, Query(max_length=10_000)] = None,
        x_bmq_key: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Hand records over. They are in the agent's spool when this is answered."""
        async with bodies:
            try:
                async with asyncio.timeout(settings.frame_timeout_s):
                    body = await _body(request, settings.frame_bytes_max)
            except TimeoutError:
                return _problem(408, f"the rest of the body did not come in {settings.frame_timeout_s:g} s")
            except ClientDisconnect:
                return _problem(400, "the connection ended in the middle of a body")
            if body is None:
                return _problem(413, f"the body is too long, {settings.frame_bytes_max} bytes are allowed")
            try:
                records = _records(request, body, x_bmq_key if key is None else key)
            except _UnknownType as error:
                return _problem(415, str(error))
            except (BadLine, BadFields) as error:
                return _problem(400, str(error))
            if not records:
                return _problem(400, "the body has no record")
            gathered = GatheredAnswers(len(records))
            refusal = intake.offer_all(gathered, name.encode("utf-8", "replace"), records)
            if refusal is not None:
                return _refused(refusal, len(records))
            await gathered.done
        return _accepted(gathered)

    @app.get("/v1/health")
    async def health() -> Response:
        """200: the agent takes records. What it cannot produce now is in its spool."""
        return JSONResponse({"status": "stopping" if intake.is_stopping else "ok"}, 503 if intake.is_stopping else 200)

    @app.get("/v1/status")
    async def show_status() -> Response:
        return JSONResponse(status())

    @app.get("/metrics")
    async def metrics() -> Response:
        return PlainTextResponse(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return app


class _UnknownType(BmqError):
    """A body of a type that is not known."""


def _records(request: Request, body: bytes, key: str | None) -> list[NewRecord]:
    """Raises _UnknownType, BadLine, BadFields."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _LINES:
        return records_of_lines(body)
    if kind not in ("", "application/octet-stream"):
        raise _UnknownType("the content type is to be application/octet-stream or application/x-ndjson")
    return [NewRecord(-1, None if key is None else key.encode(), body, _headers(request))]


async def _body(request: Request, bytes_max: int) -> bytes | None:
    """None: it is longer than `bytes_max`."""
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length[:20]) > bytes_max:
        return None
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > bytes_max:
            return None
    return bytes(found)


def _headers(request: Request) -> bytes:
    found = [
        (name[len(HEADER_PREFIX) :], value.encode("latin-1", "replace"))
        for name, value in request.headers.items()
        if name.startswith(HEADER_PREFIX)
    ]
    return encoded_headers(found)


def _accepted(gathered: GatheredAnswers) -> Response:
    if (refusal := gathered.refusal) is not None:
        return _refused(refusal, len(gathered.answers))
    numbers = gathered.numbers
    return JSONResponse(
        {
            "accepted": len(numbers),
            "sampled_out": gathered.sampled_out,
            "dropped": 0,
            "first_number": numbers[0] if numbers else None,
            "last_number": numbers[-1] if numbers else None,
        }
    )


def _refused(refusal: Refusal, count: int) -> Response:
    """`count`: records of the request."""
    if refusal.code is Code.DROPPED:
        return JSONResponse(
            {"accepted": 0, "sampled_out": 0, "dropped": count, "first_number": None, "last_number": None}
        )
    headers = {}
    if refusal.code is Code.RETRY:
        headers["Retry-After"] = str(max(1, math.ceil(refusal.retry_after_ms / 1_000)))
    extra = {"code": refusal.code.name, "retry_after_ms": refusal.retry_after_ms}
    return _problem(_STATUS.get(refusal.code, 400), refusal.sentence, headers, extra)


def _problem(
    status: int, detail: str, headers: dict[str, str] | None = None, extra: dict[str, Any] | None = None
) -> Response:
    content = {"status": status, "detail": detail, **(extra or {})}
    return JSONResponse(content, status, headers, media_type="application/problem+json")
