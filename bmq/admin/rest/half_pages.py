"""Half messages of a partition: those that are undecided, and operators' decisions. Answered by the partition's owner."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.orders import OrderRefused, partition_of, topic_of
from bmq.admin.rest.parameters import EXACT_MAX, PartitionNumber, TopicName, WholeNumber
from bmq.admin.rest.problems import ElsewhereError, ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.views import at_ms, url_of
from bmq.log.half.half_headers import AskedDecision, HalfRefused, Outcome
from bmq.log.partition_log import TopicPartition

if TYPE_CHECKING:
    from bmq.broker.half.partition_half import PartitionHalf

SHOWN_MAX: Final = 1_000
DECISIONS_MAX: Final = 500
_PATH: Final = "/v1/topics/{name}/partitions/{number}/half"


class HalfMessageView(BaseModel):
    """`offset`: that its producer was told. `held_at`: by the clock of the owner that took it."""

    offset: int
    check_id: str
    held_at: datetime


class HalfPage(BaseModel):
    """`undecided`: of the partition, in all. `next_from`: what to ask for next as `from`; null on the last page."""

    topic: str
    partition: int
    undecided: int
    messages: list[HalfMessageView]
    next_from: int | None


class DecisionForm(BaseModel):
    model_config = ConfigDict(extra="forbid")

    offsets: Annotated[list[WholeNumber], Field(min_length=1, max_length=DECISIONS_MAX)]


class DecidedView(BaseModel):
    """These half messages are decided, durably, now or since before."""

    topic: str
    partition: int
    offsets: list[int]


def half_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    @pages.get(_PATH, responses=errors(404, 422, 503, may_redirect=True))
    async def undecided(
        name: TopicName,
        number: PartitionNumber,
        from_offset: Annotated[int, Query(alias="from", ge=0, le=EXACT_MAX, description="The first offset")] = 0,
        limit: Annotated[int, Query(ge=1, le=SHOWN_MAX)] = 100,
    ) -> HalfPage:
        """The half messages that nobody has decided, in the order of their offsets."""
        order = _half_of(sources, name, number).order
        found = order.undecided(from_offset, limit + 1)
        return HalfPage(
            topic=name,
            partition=number,
            undecided=order.undecided_count,
            messages=[
                HalfMessageView(offset=half.offset, check_id=half.check_id, held_at=at_ms(half.held_ms))
                for half in found[:limit]
            ],
            next_from=found[limit].offset if len(found) > limit else None,
        )

    @pages.post(_PATH + "/commit", responses=errors(400, 404, 409, 422, 503, may_redirect=True))
    async def commit(name: TopicName, number: PartitionNumber, form: DecisionForm) -> DecidedView:
        """Deliver these half messages, all of them or none. What is committed already stays so."""
        return await decided(name, number, form.offsets, Outcome.COMMIT)

    @pages.post(_PATH + "/rollback", responses=errors(400, 404, 409, 422, 503, may_redirect=True))
    async def roll_back(name: TopicName, number: PartitionNumber, form: DecisionForm) -> DecidedView:
        """Never deliver these half messages, all of them or none. What is rolled back already stays so."""
        return await decided(name, number, form.offsets, Outcome.ROLLBACK)

    async def decided(name: str, number: int, offsets: list[int], outcome: Outcome) -> DecidedView:
        asked = [AskedDecision(outcome, offset) for offset in dict.fromkeys(offsets)]
        try:
            reason = await _half_of(sources, name, number).checks.decide(asked)
        except HalfRefused as error:
            raise OrderRefused(str(error)) from error
        if reason is not None:
            raise ProblemError(503, f"partition {number} of topic {name} cannot take it now: {reason}")
        return DecidedView(topic=name, partition=number, offsets=[one.offset for one in asked])

    return pages


def _half_of(sources: RestSources, name: str, number: int) -> PartitionHalf:
    """Raises ElsewhereError with the address of the partition's owner, UnknownSubject, ProblemError."""
    image = sources.image()
    topic = topic_of(image, name)
    partition = partition_of(topic, number)
    manager = sources.partitions()
    runtime = None if manager is None else manager.runtime(TopicPartition(topic.topic_id, number))
    if runtime is not None and runtime.is_owning:
        return runtime.half
    owner = image.nodes.get(partition.leader)
    if owner is None or owner.rest is None or owner.node_id == sources.node_id:
        raise ProblemError(503, f"partition {number} of topic {name} is not served now; ask again in a moment")
    raise ElsewhereError(url_of(owner.rest, sources.scheme))
