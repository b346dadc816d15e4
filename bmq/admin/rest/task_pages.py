"""Tasks: orders, their progress, and events. They live on the active controller."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Final

from fastapi import APIRouter, Query

from bmq.admin.rest.parameters import TaskId, operations_here
from bmq.admin.rest.problems import errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.views import TaskPage, TaskView, task_view
from bmq.admin.tasks import Task, TaskBook, UnknownTask

WAIT_MS_MAX: Final = 30_000
TASKS_SHOWN_MAX: Final = 1_000


def task_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    def found(task_id: str) -> tuple[TaskBook, Task]:
        """Works on a former active controller too: it knows how its tasks ended."""
        operations = sources.operations()
        if operations is None:
            raise UnknownTask(f"there is no task {task_id}: this server is the whole cluster")
        with suppress(UnknownTask):
            return operations.tasks, operations.tasks.get(task_id)
        book = operations_here(sources).tasks
        return book, book.get(task_id)

    @pages.get("/v1/tasks", responses=errors(422, 503, may_redirect=True))
    async def tasks(limit: Annotated[int, Query(ge=1, le=TASKS_SHOWN_MAX)] = 100) -> TaskPage:
        """The newest tasks of the active controller."""
        if sources.operations() is None:
            return TaskPage(tasks=[])
        return TaskPage(tasks=[task_view(task) for task in operations_here(sources).tasks.newest(limit)])

    @pages.get("/v1/tasks/{task_id}", responses=errors(404, 422, 503, may_redirect=True))
    async def task(task_id: TaskId) -> TaskView:
        """How far one task is."""
        return task_view(found(task_id)[1])

    @pages.get("/v1/tasks/{task_id}/events", responses=errors(404, 422, 429, 503, may_redirect=True))
    async def events(
        task_id: TaskId,
        after: Annotated[int, Query(ge=-1, le=2**31 - 1, description="The `version` that is known already")] = -1,
        wait_ms: Annotated[int, Query(ge=0, le=WAIT_MS_MAX, description="How long to wait for news")] = 0,
    ) -> TaskView:
        """The task as soon as its version is past `after`, or it has ended, or the wait is over (a long poll)."""
        book, task = found(task_id)
        await book.changed(task, after, wait_ms / 1000)
        return task_view(task)

    return pages
