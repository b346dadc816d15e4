"""Tables made of topics: definitions, which any node shows and the active controller changes, and their progress."""

from __future__ import annotations

import asyncio
import heapq
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response

from bmq.admin.rest.parameters import DryRun, TableName, not_here
from bmq.admin.rest.problems import errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.table_views import (
    TableChangeView,
    TableLine,
    TablePage,
    TableReport,
    TableStatusView,
    TableView,
    change_view,
    progress_of,
    status_view,
    table_line,
    table_view,
    unreadable_line,
)
from bmq.admin.tables import Tables
from bmq.controller.tables import find_table
from bmq.table_definitions.definition import TableDefinition
from bmq.table_definitions.stored import UnreadableTable, stored_table

TABLES_SHOWN_MAX: Final = 1_000
_TablePrefix = Annotated[str, Query(pattern="^[a-z0-9_]{0,100}$", max_length=100)]
_CHANGE: Final[dict[str, Any]] = {"responses": errors(400, 404, 409, 413, 422, 503, 504, may_redirect=True)}
_CREATION: Final = errors(400, 409, 413, 422, 503, 504, may_redirect=True)
_STATUS: Final = errors(404, 409, 422, 503, may_redirect=True)


def table_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()
    tables = Tables(sources.table_controller, sources.high_watermark)

    def here() -> Tables:
        """Raises ElsewhereError with the active controller's address when it is another node, ProblemError when there is none."""
        if not tables.is_active:
            raise not_here(sources)
        return tables

    @pages.get("/v1/tables", responses=errors(422))
    async def table_list(
        prefix: Annotated[_TablePrefix, Query(description="Only names that begin so")] = "",
        after: Annotated[_TablePrefix, Query(description="Only names that follow this one")] = "",
        limit: Annotated[int, Query(ge=1, le=TABLES_SHOWN_MAX)] = 100,
    ) -> TablePage:
        """Tables in the order of their names, page by page."""
        texts = sources.image().tables
        names = heapq.nsmallest(limit + 1, (name for name in texts if name > after and name.startswith(prefix)))
        shown = names[:limit]
        lines = []
        for name in shown:
            lines.append(_line(name, texts[name]))
            await asyncio.sleep(0)  # reading a large definition for the first time takes milliseconds
        return TablePage(tables=lines, next_after=shown[-1] if len(names) > limit else None)

    @pages.get("/v1/tables/{name}", responses=errors(404, 409, 422))
    async def table(name: TableName) -> TableView:
        """One table's definition."""
        return table_view(find_table(sources.image(), name))

    @pages.post(
        "/v1/tables",
        status_code=201,
        responses={
            200: {
                "model": TableChangeView,
                "description": "It is there already; or, with `dry_run`, what would be done.",
            },
            201: {
                "model": TableChangeView,
                "description": "It was made.",
                "headers": {"Location": {"description": "Where it is.", "schema": {"type": "string"}}},
            },
            **_CREATION,
        },
    )
    async def create(definition: TableDefinition, response: Response, dry_run: DryRun = False) -> TableChangeView:
        """Make a table of a topic. Asking again for an equal one changes nothing."""
        change = await here().create(definition, is_dry_run=dry_run)
        if dry_run or not change.is_new:
            response.status_code = 200
        else:
            response.headers["Location"] = f"/v1/tables/{definition.name}"
        return change_view(change, is_dry_run=dry_run)

    @pages.put("/v1/tables/{name}", **_CHANGE)
    async def alter(name: TableName, definition: TableDefinition, dry_run: DryRun = False) -> TableChangeView:
        """Give a table another definition, which is sent whole: fields are added, and what was written stays right."""
        return change_view(await here().alter(name, definition, is_dry_run=dry_run), is_dry_run=dry_run)

    @pages.delete("/v1/tables/{name}", responses=errors(404, 422, 503, 504, may_redirect=True))
    async def drop(name: TableName, dry_run: DryRun = False) -> TableChangeView:
        """Forget a table's definition. Its rows stay where they are."""
        return TableChangeView(summary=await here().drop(name, is_dry_run=dry_run), changes=[], table=None)

    @pages.get("/v1/tables/{name}/status", responses=_STATUS)
    async def status(name: TableName) -> TableStatusView:
        """How far a table is, as its job reported to the active controller, and how far behind the end of the topic."""
        return status_view(here().status(name))

    @pages.put("/v1/tables/{name}/status", responses={**errors(400, 413), **_STATUS})
    async def report(name: TableName, report: TableReport) -> TableStatusView:
        """For the job that fills the table: how far it is, after each commit. Kept in the active controller's memory."""
        return status_view(here().report(name, progress_of(report)))

    return pages


def _line(name: str, text: str) -> TableLine:
    try:
        return table_line(name, stored_table(text))
    except UnreadableTable as error:
        return unreadable_line(name, str(error))
