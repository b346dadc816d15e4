"""A task as the metadata log has it: JSON with its order and idempotency key, so that the next controller goes on with it.

It is written when the task begins and when it ends. Of its steps the newest are kept.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

import structlog
from pydantic import BaseModel, ConfigDict, ValidationError

from bmq.admin.orders import Drain, MovePartition, Order, Rebalance, Scale, Undrain, kind_of
from bmq.admin.tasks import Step, Task, TaskState

STEPS_KEPT: Final = 20
SENTENCE_CHARACTERS_MAX: Final = 500
_ORDERS: Final[dict[str, type[Order]]] = {
    "drain": Drain,
    "undrain": Undrain,
    "rebalance": Rebalance,
    "scale": Scale,
    "move": MovePartition,
}

_log = structlog.get_logger("bmq.admin")


class _StoredStep(BaseModel):
    number: int
    at_ms: int
    text: str


class StoredTask(BaseModel):
    """`key`: the idempotency key that it was ordered with. The rest is as in Task."""

    model_config = ConfigDict(frozen=True)

    id: str
    subject: str
    kind: str
    order: dict[str, Any]
    key: str | None
    started_at_ms: int
    ended_at_ms: int | None
    state: TaskState
    error: str | None
    progress: float
    version: int
    steps: list[_StoredStep]

    def decoded_order(self) -> Order | None:
        """None: an order of a later release."""
        try:
            return _ORDERS[self.kind](**self.order)
        except (KeyError, TypeError):
            return None

    def task(self, version: int) -> Task:
        """The task of the process that reads it."""
        task = Task(self.id, self.kind, self.subject, self.started_at_ms, self.state, self.progress)
        task.steps.extend(Step(step.number, step.at_ms, step.text) for step in self.steps)
        task.ended_at_ms, task.error, task.version = self.ended_at_ms, self.error, version
        return task


def stored_text(task: Task, order: Order, key: str | None) -> str:
    """The task as it is now."""
    newest = list(task.steps)[-STEPS_KEPT:]
    return StoredTask(
        id=task.task_id,
        subject=task.subject,
        kind=kind_of(order),
        order=asdict(order),
        key=key,
        started_at_ms=task.started_at_ms,
        ended_at_ms=task.ended_at_ms,
        state=task.state,
        error=None if task.error is None else task.error[:SENTENCE_CHARACTERS_MAX],
        progress=task.progress,
        version=task.version,
        steps=[_StoredStep(number=s.number, at_ms=s.at_ms, text=s.text[:SENTENCE_CHARACTERS_MAX]) for s in newest],
    ).model_dump_json()


def read_stored(task_id: str, text: str) -> StoredTask | None:
    """None, with a warning, if this release cannot read it."""
    try:
        return StoredTask.model_validate_json(text)
    except ValidationError as error:
        _log.warning("task_unreadable", task=task_id, reason=f"{error.error_count()} fields are wrong")
        return None
