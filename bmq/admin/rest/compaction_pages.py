"""The compaction of one partition, given to a job outside of the servers: the owner's plan, and the swap. See docs/SPARK_JOBS.md."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.orders import partition_of, topic_of
from bmq.admin.rest.parameters import NUMBER, DryRun, PartitionNumber, TopicName
from bmq.admin.rest.problems import ElsewhereError, ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.views import url_of
from bmq.broker.compaction.pacing import CompactionPacing
from bmq.log.delegated_compaction import TIME_LIMIT_MS_MAX
from bmq.log.partition_log import PartitionStarting, TopicPartition

if TYPE_CHECKING:
    from bmq.broker.manager import PartitionManager
    from bmq.broker.runtime import PartitionRuntime

_PATH: Final = "/v1/topics/{name}/partitions/{number}/compaction"
_ERRORS: Final = errors(400, 404, 409, 413, 422, 503, 504, may_redirect=True)
Reservation = Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="Id of a reservation")]


class PlanOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")

    job: Annotated[
        str, Field(min_length=1, max_length=200, description="Name of the job: the same job gets the same plan")
    ]
    time_limit_ms: Annotated[
        int, Field(ge=1, le=TIME_LIMIT_MS_MAX, description="How long the owner leaves the partition alone"), NUMBER
    ]


class SwapOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")

    leader_epoch: Annotated[int, Field(ge=0, le=2**31 - 1, description="Of the plan"), NUMBER]


class DelegatedPlanView(BaseModel):
    """`plan` is null when there is nothing to clean."""

    plan: dict[str, Any] | None


class DelegationEndView(BaseModel):
    first_dirty_offset: int
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_kept: int


class ReleaseView(BaseModel):
    released: str


def compaction_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    async def owned(name: str, number: int) -> tuple[PartitionManager, PartitionRuntime]:
        """Raises ElsewhereError with the address of the owner when it is another node, ProblemError, BmqError."""
        image = sources.image()
        topic = topic_of(image, name)
        if topic.view is not None:
            raise ProblemError(
                422, f"{name} is a view, which has no log: compact {topic.view.base_name}, whose records it shows"
            )
        leader = partition_of(topic, number).leader
        manager = sources.partitions()
        if leader != sources.node_id:
            node = image.nodes.get(leader)
            if node is None or node.rest is None:
                raise ProblemError(409, f"{name}-{number} has no owner that can be asked now; ask again in a moment")
            raise ElsewhereError(url_of(node.rest, sources.scheme))
        if manager is None:
            raise ProblemError(503, "this node has no partitions yet; ask again in a moment")
        try:
            return manager, await manager.leader_of(TopicPartition(topic.topic_id, number))
        except PartitionStarting as error:
            raise ProblemError(503, str(error)) from error

    @pages.post(_PATH, responses=_ERRORS)
    async def plan(
        name: TopicName, number: PartitionNumber, order: PlanOrder, dry_run: DryRun = False
    ) -> DelegatedPlanView:
        """Reserve the partition's compaction, and say what is to be cleaned; with `dry_run` reserve nothing."""
        _, log = await owned(name, number)
        found = await log.compaction.delegation.plan(order.job, order.time_limit_ms, is_dry_run=dry_run)
        return DelegatedPlanView(plan=None if found is None else json.loads(found.encode()))

    @pages.post(_PATH + "/{reservation}/swap", responses=_ERRORS)
    async def swap(
        name: TopicName, number: PartitionNumber, reservation: Reservation, order: SwapOrder
    ) -> DelegationEndView:
        """Check the files in the reservation's directory, and make them part of the log: all or nothing."""
        manager, log = await owned(name, number)
        pacing = CompactionPacing(manager.context)
        end = await log.compaction.delegation.swap(reservation, order.leader_epoch, pacing.pace)
        return DelegationEndView(
            first_dirty_offset=end.first_dirty_offset,
            records_read=end.records_read,
            records_kept=end.records_kept,
            bytes_read=end.bytes_read,
            bytes_kept=end.bytes_kept,
        )

    @pages.delete(_PATH + "/{reservation}", responses=_ERRORS)
    async def release(name: TopicName, number: PartitionNumber, reservation: Reservation) -> ReleaseView:
        """Give a reservation back; its files are removed."""
        _, log = await owned(name, number)
        log.compaction.delegation.release(reservation)
        return ReleaseView(released=reservation)

    return pages
