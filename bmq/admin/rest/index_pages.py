"""Queries on indexes. The node authorizes them, and the query service (`bmq index serve`) answers."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Request, Response

from bmq.admin.index_queries import IndexServiceAway
from bmq.admin.rest.authorization import may_read_topic
from bmq.admin.rest.parameters import TableName
from bmq.admin.rest.problems import MEDIA_TYPE, Problem, ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.controller.tables import find_table

_FORWARDED: Final = frozenset({200, 404, 409, 422, 503, 504})
_BAD_GATEWAY: Final = 502
_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    **errors(400, 404, 409, 413, 422, 503, 504),
    502: {"model": Problem, "description": "The query service failed, or refused this node's token."},
    504: {"model": Problem, "description": "The query took too long."},
}


def index_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    @pages.post("/v1/indexes/{name}/query", responses=_ERRORS)
    async def query(
        name: TableName,
        query: Annotated[dict[str, Any], Body(description="The query, as docs/INDEX.md describes it.")],
        request: Request,
    ) -> dict[str, Any]:
        """Find records of an index's topic. Asks for the right to read the topic."""
        table = find_table(sources.image(), name)
        if not may_read_topic(request.scope, table.definition.topic):
            raise ProblemError(403, f"there is no right to READ on topic {table.definition.topic} of index {name}")
        if table.definition.index is None:
            raise ProblemError(422, f"{name} is a table without an index; make one with `bmq index create`")
        queries = sources.index_queries()
        if queries is None:
            raise ProblemError(503, "this process forwards no queries on indexes")
        try:
            status, answer = await queries.ask(name, json.dumps(query).encode())
        except IndexServiceAway as error:
            raise ProblemError(503, str(error)) from None
        if status not in _FORWARDED:
            raise ProblemError(
                _BAD_GATEWAY, f"the query service answered {status}; its log, or its token, has the reason"
            )
        # As the service wrote it: an answer may have megabytes.
        media_type = "application/json" if status == 200 else MEDIA_TYPE
        return Response(answer, status, media_type=media_type)  # type: ignore[return-value]

    return pages
