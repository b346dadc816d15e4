"""Redrives: dead letters of a group are delivered again. They run on the active controller."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.redrives import Redrives
from bmq.admin.rest.parameters import NUMBER, DryRun, TaskId, not_here
from bmq.admin.rest.problems import ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.task_pages import TASKS_SHOWN_MAX, WAIT_MS_MAX
from bmq.admin.rest.views import TaskPage, TaskView, task_view
from bmq.protocol.dead_letters import DeadReason
from bmq.proxy.dead_letters.redrive import RECORDS_PER_S_MAX, RedriveOrder
from bmq.proxy.dead_letters.redrive_filter import LetterFilter

_NAME: Final = "^[a-zA-Z0-9._-]{1,249}$"
_REASONS: Final = {"rejected": DeadReason.REJECTED, "delivery-count": DeadReason.DELIVERY_COUNT}
TopicField = Annotated[str | None, Field(pattern=_NAME, max_length=249)]


class RedriveForm(BaseModel):
    """Either `to` or `to_source`. The others choose among the group's dead letters; those left out do not matter."""

    model_config = ConfigDict(extra="forbid")

    group: Annotated[str, Field(min_length=1, max_length=1_000, description="The group")]
    to: TopicField = None
    to_source: Annotated[bool, Field(description="Into each record's own topic, where every group reads it again")] = (
        False
    )
    letters: TopicField = None
    reason: Literal["rejected", "delivery-count"] | None = None
    topic: TopicField = None
    partition: Annotated[int | None, Field(ge=0, le=2**31 - 1), NUMBER] = None
    key: Annotated[str | None, Field(max_length=10_000)] = None
    from_time: Annotated[datetime | None, Field(description="Written at this time or later")] = None
    to_time: Annotated[datetime | None, Field(description="Written before this time")] = None
    records_per_s: Annotated[int, Field(ge=1, le=RECORDS_PER_S_MAX), NUMBER] = 1_000
    from_start: Annotated[bool, Field(description="Also what was delivered again before")] = False

    def order(self, *, is_dry_run: bool) -> RedriveOrder:
        """Raises ProblemError."""
        if (self.to is None) != self.to_source:
            raise ProblemError(422, "name a topic in `to`, or say `to_source`, and not both")
        wanted = LetterFilter(
            None if self.reason is None else _REASONS[self.reason],
            self.topic,
            self.partition,
            None if self.key is None else self.key.encode(),
            _milliseconds(self.from_time),
            _milliseconds(self.to_time),
        )
        return RedriveOrder(self.group, self.to, self.letters, wanted, self.records_per_s, self.from_start, is_dry_run)


def redrive_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    def here() -> Redrives:
        """Raises ElsewhereError with the address of the active controller, ProblemError."""
        redrives = sources.redrives()
        if redrives is None:
            raise ProblemError(503, "this node is not ready; ask again in a moment")
        if not redrives.is_active:
            raise not_here(sources)
        return redrives

    def book_of(task_id: str) -> Redrives:
        """A former active controller knows how its tasks ended."""
        redrives = sources.redrives()
        return redrives if redrives is not None and redrives.tasks.has(task_id) else here()

    @pages.post("/v1/redrives", status_code=202, responses=errors(400, 409, 422, 429, 503, may_redirect=True))
    async def redrive(form: RedriveForm, response: Response, dry_run: DryRun = False) -> TaskView:
        """Deliver a group's dead letters again. With `dry_run` they are read and counted, and nothing is written."""
        task = here().begin(form.order(is_dry_run=dry_run))
        response.headers["Location"] = f"/v1/redrives/{task.task_id}"
        return task_view(task)

    @pages.get("/v1/redrives", responses=errors(422, 503, may_redirect=True))
    async def redrives(limit: Annotated[int, Query(ge=1, le=TASKS_SHOWN_MAX)] = 100) -> TaskPage:
        """The newest redrives of the active controller."""
        return TaskPage(tasks=[task_view(task) for task in here().tasks.newest(limit)])

    @pages.get("/v1/redrives/{task_id}", responses=errors(404, 422, 503, may_redirect=True))
    async def one(task_id: TaskId) -> TaskView:
        """How far one redrive is."""
        return task_view(book_of(task_id).tasks.get(task_id))

    @pages.get("/v1/redrives/{task_id}/events", responses=errors(404, 422, 429, 503, may_redirect=True))
    async def events(
        task_id: TaskId,
        after: Annotated[int, Query(ge=-1, le=2**31 - 1, description="The `version` that is known already")] = -1,
        wait_ms: Annotated[int, Query(ge=0, le=WAIT_MS_MAX, description="How long to wait for news")] = 0,
    ) -> TaskView:
        """The redrive as soon as its version is past `after`, or it has ended, or the wait is over (a long poll)."""
        book = book_of(task_id).tasks
        task = book.get(task_id)
        await book.changed(task, after, wait_ms / 1000)
        return task_view(task)

    @pages.delete("/v1/redrives/{task_id}", responses=errors(404, 422, 503, may_redirect=True))
    async def cancel(task_id: TaskId) -> TaskView:
        """End a redrive; the same order goes on from there."""
        return task_view(book_of(task_id).cancel(task_id))

    return pages


def _milliseconds(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise ProblemError(422, "a time needs its zone, like 2030-01-31T12:00:00Z")
    return round(moment.timestamp() * 1000)
