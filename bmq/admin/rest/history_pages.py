"""The page of one partition's leaders over time."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel

from bmq.admin.orders import partition_of, topic_of
from bmq.admin.rest.parameters import PartitionNumber, TopicName
from bmq.admin.rest.problems import errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.views import at_ms
from bmq.metadata.leader_terms import LeaderTerm, leader_terms, leaderless_ms


class LeaderTermView(BaseModel):
    """`leader` is the owner; -1: nobody. `since`: null if it is not known. `until`: null while the term lasts.

    `lasted_ms`: null if `since` is. `without_owner_ms`: how long nobody owned the partition before this term.
    """

    leader: int
    leader_epoch: int
    since: datetime | None
    until: datetime | None
    lasted_ms: int | None
    without_owner_ms: int
    reason: str


class PartitionHistoryView(BaseModel):
    """Terms of the owners, newest first; the newest 64 changes of a partition are kept, less in a cluster with very many.

    `without_owner_ms`: in these terms together. It counts from the moment that the controller takes the owner away: before
    that a dead owner was silent for as long as its `reason` says. `earlier_epochs`: leader epochs before the oldest term;
    the first owner of a partition is one of them.
    """

    topic: str
    partition: int
    owner: int
    leader_epoch: int
    without_owner_ms: int
    earlier_epochs: int
    terms: list[LeaderTermView]


def history_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    @pages.get("/v1/topics/{name}/partitions/{number}/history", responses=errors(404, 422))
    async def history(name: TopicName, number: PartitionNumber) -> PartitionHistoryView:
        """The owners of one partition with times and reasons, and the times without an owner. A view has the owners of its base."""
        image = sources.image()
        topic = topic_of(image, name)
        partition = partition_of(topic, number)
        known = sources.history()
        terms = leader_terms(() if known is None else known.of(topic.log_id, number), partition)
        now_ms = sources.now_ms()
        return PartitionHistoryView(
            topic=name,
            partition=number,
            owner=partition.leader,
            leader_epoch=partition.leader_epoch,
            without_owner_ms=leaderless_ms(terms, now_ms),
            earlier_epochs=terms[-1].leader_epoch,
            terms=[_term_view(term, now_ms) for term in terms],
        )

    return pages


def _term_view(term: LeaderTerm, now_ms: int | None) -> LeaderTermView:
    return LeaderTermView(
        leader=term.leader,
        leader_epoch=term.leader_epoch,
        since=None if term.since_ms is None else at_ms(term.since_ms),
        until=None if term.until_ms is None else at_ms(term.until_ms),
        lasted_ms=term.lasted_ms(now_ms),
        without_owner_ms=term.leaderless_before_ms,
        reason=term.reason,
    )
