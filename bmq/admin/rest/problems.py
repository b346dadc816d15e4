"""Every error is one sentence in an application/problem+json document (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException as StarletteHTTPException

from bmq.admin.drivers.driver import DriverFailed, DriverRefused
from bmq.admin.idempotency import KeyReused
from bmq.admin.operations import NotActiveController
from bmq.admin.orders import OrderRefused, UnknownSubject
from bmq.admin.tasks import TooBusy, UnknownTask
from bmq.channels.channel import InvalidChannel
from bmq.channels.stored import UnreadableChannel
from bmq.channels.value_schema import SchemaCheckMissing
from bmq.controller.channels import ChannelRefused, UnknownChannel
from bmq.controller.tables import TableRefused, UnknownTable
from bmq.log.delegated_compaction import DelegationRefused
from bmq.log.store import StoreError
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.table_definitions.definition import InvalidDefinition
from bmq.table_definitions.evolution import AlterationRefused
from bmq.table_definitions.progress import ReportRefused
from bmq.table_definitions.stored import UnreadableTable

MEDIA_TYPE: Final = "application/problem+json"
# The first class that matches counts.
_STATUS: Final[dict[type[BmqError], int]] = {
    UnknownSubject: 404,
    UnknownTask: 404,
    UnknownTable: 404,
    UnknownChannel: 404,
    OrderRefused: 409,
    TableRefused: 409,
    AlterationRefused: 409,
    ReportRefused: 409,
    ChannelRefused: 409,
    SchemaCheckMissing: 409,
    UnreadableChannel: 409,
    UnreadableTable: 409,
    InvalidDefinition: 422,
    InvalidChannel: 422,
    KeyReused: 409,
    TooBusy: 429,
    DelegationRefused: 409,
    DriverRefused: 409,
    DriverFailed: 502,
    NotActiveController: 503,
    StoreError: 503,
}
_CODE_STATUS: Final = {
    ErrorCode.NOT_CONTROLLER: 503,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: 503,
    ErrorCode.KAFKA_STORAGE_ERROR: 503,
    ErrorCode.REQUEST_TIMED_OUT: 504,
}
_REDIRECTION: Final = "Another node has to answer; the same request at `Location` is answered there."
_DESCRIPTIONS: Final = {
    400: "The body is not JSON.",
    403: "A right is missing.",
    404: "There is no such thing.",
    409: "The present state does not allow it.",
    413: "The body is too large.",
    422: "The request is not as described.",
    429: "Too many of these at once.",
    502: "The driver that starts and stops nodes has failed.",
    503: "The part of the cluster that answers this is not available now.",
    504: "The store did not answer in time.",
}

_log = structlog.get_logger("bmq.rest")


class Problem(BaseModel):
    """`detail` is the sentence."""

    type: str = "about:blank"
    title: str
    status: int = Field(ge=400, le=599)
    detail: str


class ProblemError(Exception):
    """Ends a request with this status and sentence."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class ElsewhereError(Exception):
    """Another node has to answer: the active controller at this URL."""

    def __init__(self, base_url: str) -> None:
        super().__init__(base_url)
        self.base_url = base_url


def problem_response(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    problem = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return Response(problem.model_dump_json(), status, media_type=MEDIA_TYPE, headers=headers)


def errors(*statuses: int, may_redirect: bool = False) -> dict[int | str, dict[str, Any]]:
    """FastAPI's `responses` for these statuses."""
    documented: dict[int | str, dict[str, Any]] = {
        status: {"model": Problem, "description": _DESCRIPTIONS[status]} for status in statuses
    }
    if may_redirect:
        location = {"description": "The same path at the active controller.", "schema": {"type": "string"}}
        documented[307] = {"description": _REDIRECTION, "headers": {"Location": location}}
    return documented


def status_of(error: BmqError) -> int:
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return status
    return _CODE_STATUS.get(error.code, 500)


def handle_problems(app: FastAPI) -> None:
    """Answer every failure with a problem document, and say so in the OpenAPI document."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(ElsewhereError, _on_elsewhere)
    app.add_exception_handler(BmqError, _on_bmq_error)
    app.add_exception_handler(RequestValidationError, _on_bad_request)
    app.add_exception_handler(StarletteHTTPException, _on_http_exception)
    app.add_exception_handler(Exception, _on_mistake)
    _document(app)


async def _on_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return problem_response(error.status, error.detail)


async def _on_elsewhere(request: Request, error: Exception) -> Response:
    assert isinstance(error, ElsewhereError)
    query = f"?{request.url.query}" if request.url.query else ""
    # The raw path, not decoded, because it goes into a header.
    path = request.scope.get("raw_path", b"").partition(b"?")[0].decode("ascii", "replace") or request.url.path
    return Response(status_code=307, headers={"Location": f"{error.base_url}{path}{query}"})


async def _on_bmq_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, BmqError)
    return problem_response(status_of(error), str(error))


async def _on_bad_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return problem_response(422, f"{place}: {first['msg']}")


async def _on_http_exception(_: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    return problem_response(error.status_code, str(error.detail), dict(error.headers or {}))


async def _on_mistake(request: Request, error: Exception) -> Response:
    _log.error("request_failed", path=request.url.path, exc_info=error)
    return problem_response(500, f"an unexpected {type(error).__name__}; the log of this node has more")


def _document(app: FastAPI) -> None:
    """FastAPI writes every model under application/json; problems have a media type of their own."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            for path in document["paths"].values():
                for operation in path.values():
                    for response in operation["responses"].values():
                        _rename_media_type(response)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _rename_media_type(response: dict[str, Any]) -> None:
    content = response.get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    if schema.get("$ref", "").endswith("/Problem"):
        content[MEDIA_TYPE] = content.pop("application/json")
