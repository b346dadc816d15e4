"""The last log events of the node that answers, without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query
from pydantic import BaseModel

from bmq.admin.recent_logs import LogLine, RecentLogs, event_of, fields_of
from bmq.admin.rest.parameters import EXACT_MAX
from bmq.admin.rest.problems import ProblemError, errors
from bmq.admin.rest.sources import RestSources

EVENTS_SHOWN_MAX: Final = 500


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


_SEVERITY: Final = {level.value: number for number, level in enumerate(Level)}
_OWN: Final = ("event", "level", "timestamp")


class LogEventView(BaseModel):
    """`number` goes up with each event, also over a restart. `at`: as logged. `fields`: the others of the event, as docs/EVENTS.md lists them."""

    number: int
    at: str
    level: str
    event: str
    fields: dict[str, Any]


class LogPage(BaseModel):
    """The oldest first. `next_after`: what to ask for next as `after`. `is_complete`: no event between `after` and the first one was dropped.

    `is_end`: there is no later event now.
    """

    node_id: int
    events: list[LogEventView]
    next_after: int
    is_complete: bool
    is_end: bool


def log_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    @pages.get("/v1/logs", responses=errors(422, 503))
    def logs(  # blanking secrets takes a while, so FastAPI runs it in a thread
        level: Annotated[Level, Query(description="Only events of this level and worse ones")] = Level.DEBUG,
        event: Annotated[str, Query(max_length=100, description="A part of the event's name")] = "",
        after: Annotated[
            int, Query(ge=-1, le=EXACT_MAX, description="Only events after this number; -1: the newest ones")
        ] = -1,
        limit: Annotated[int, Query(ge=1, le=EVENTS_SHOWN_MAX)] = 100,
    ) -> LogPage:
        """Log events of the node that answers: the newest ones, or those that follow a number. Some 2,000 are kept."""
        recent = sources.logs()
        if recent is None:
            raise ProblemError(503, "this process keeps no log events")
        return _page(recent, sources.node_id, Wanted(level, event), after, limit)

    return pages


class Wanted(NamedTuple):
    """`level`: the least. `event`: a part of the name."""

    level: Level
    event: str

    def has(self, fields: Mapping[str, Any]) -> bool:
        severity = _SEVERITY.get(str(fields.get("level")), _SEVERITY[Level.INFO])
        return severity >= _SEVERITY[self.level] and self.event in str(fields.get("event", ""))


def _page(recent: RecentLogs, node_id: int, wanted: Wanted, after: int, limit: int) -> LogPage:
    lines = recent.lines()
    newest = lines[-1].number if lines else -1
    # Numbers are larger after a restart, unless the clock was set back: then there is nothing to go on from.
    is_begun = 0 <= after <= newest
    chosen: Iterable[LogLine] = (line for line in lines if line.number > after) if is_begun else reversed(lines)
    found: list[LogEventView] = []
    last = newest
    for line in chosen:
        if len(found) == limit:
            break
        last = line.number if is_begun else newest
        if wanted.has(fields_of(line.text)):
            found.append(_view(line, event_of(line.text, recent.redact)))
    else:
        last = newest
    return LogPage(
        node_id=node_id,
        events=found if is_begun else found[::-1],
        next_after=last,
        is_complete=lines[0].number <= after + 1 if is_begun else after < 0,
        is_end=last == newest,
    )


def _view(line: LogLine, fields: Mapping[str, Any]) -> LogEventView:
    return LogEventView(
        number=line.number,
        at=str(fields.get("timestamp", "")),
        level=str(fields.get("level", "")),
        event=str(fields.get("event", "")),
        fields={name: value for name, value in fields.items() if name not in _OWN},
    )
