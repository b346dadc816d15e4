"""Orders: each one becomes a task, or with `dry_run` only a plan."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.orders import Drain, MovePartition, Order, Rebalance, Scale, Undrain
from bmq.admin.rest.parameters import (
    NUMBER,
    DryRun,
    IdempotencyKey,
    NodeId,
    PartitionNumber,
    TopicName,
    operations_here,
)
from bmq.admin.rest.problems import errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.views import PlanView, TaskView, plan_view, task_view

BROKERS_MAX: Final = 10_000


class ScaleOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")

    brokers: Annotated[int, Field(ge=1, le=BROKERS_MAX, description="Wanted number of brokers, at least 1"), NUMBER]


class MoveOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")

    to: Annotated[int, Field(ge=0, le=2**31 - 1, description="Id of the partition's next owner"), NUMBER]


def order_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    async def take(order: Order, is_dry_run: bool, key: str | None) -> Response:
        operations = operations_here(sources)
        if is_dry_run:
            return _json(plan_view(await operations.plan(order)), 200)
        task = await operations.submit(order, key)
        return _json(task_view(task), 202, {"Location": f"/v1/tasks/{task.task_id}"})

    @pages.post("/v1/nodes/{node_id}/drain", **_outcomes(404))
    async def drain(node_id: NodeId, dry_run: DryRun = False, key: IdempotencyKey = None) -> Response:
        """Take every partition away from a node; it is given none until it is undrained or started anew."""
        return await take(Drain(node_id), dry_run, key)

    @pages.post("/v1/nodes/{node_id}/undrain", **_outcomes(404))
    async def undrain(node_id: NodeId, dry_run: DryRun = False, key: IdempotencyKey = None) -> Response:
        """Let a drained node take partitions on again."""
        return await take(Undrain(node_id), dry_run, key)

    @pages.post("/v1/rebalance", **_outcomes())
    async def rebalance(dry_run: DryRun = False, key: IdempotencyKey = None) -> Response:
        """Spread the partitions over the brokers."""
        return await take(Rebalance(), dry_run, key)

    @pages.post("/v1/scale", **_outcomes(400, 502))
    async def scale(order: ScaleOrder, dry_run: DryRun = False, key: IdempotencyKey = None) -> Response:
        """Start or stop nodes until there are so many brokers; those that stop give their partitions away first."""
        return await take(Scale(order.brokers), dry_run, key)

    @pages.post("/v1/topics/{name}/partitions/{number}/move", **_outcomes(400, 404))
    async def move(
        name: TopicName, number: PartitionNumber, order: MoveOrder, dry_run: DryRun = False, key: IdempotencyKey = None
    ) -> Response:
        """Give one partition to a node."""
        return await take(MovePartition(name, number, order.to), dry_run, key)

    return pages


def _outcomes(*more: int) -> dict[str, Any]:
    """The possible answers to an order: a plan, a task, another node's address, or a problem."""
    outcomes: dict[int | str, dict[str, Any]] = {
        200: {"model": PlanView, "description": "With `dry_run`: what would be done."},
        202: {
            "model": TaskView,
            "description": "It has begun; the task is at `Location`.",
            "headers": {"Location": {"description": "Where to follow the task.", "schema": {"type": "string"}}},
        },
    }
    responses = {**outcomes, **errors(409, 422, 429, 503, 504, *more, may_redirect=True)}
    return {"status_code": 202, "response_model": None, "responses": responses}


def _json(view: BaseModel, status: int, headers: dict[str, str] | None = None) -> Response:
    return Response(view.model_dump_json(), status, headers, media_type="application/json")
