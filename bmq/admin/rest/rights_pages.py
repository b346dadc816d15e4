"""What the client of a request may do, so that a page offers nothing that would be refused."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from bmq.admin.rest.authorization import operations_on
from bmq.admin.rest.parameters import TopicPrefix
from bmq.admin.rest.problems import errors
from bmq.admin.rest.sources import RestSources
from bmq.security.acls import CLUSTER_NAME, ResourceType

_Name = Annotated[str | None, Query(min_length=1, max_length=1_000)]


class RightsView(BaseModel):
    """`cluster`, `topic`, `group`, `transactional_id`: operations by Kafka's names; null for what was not asked about. A topic need not
    exist to be asked about. `has_authorizer`: false: everything is allowed.
    """

    principal: str
    has_authorizer: bool
    cluster: list[str]
    topic: list[str] | None
    group: list[str] | None
    transactional_id: list[str] | None


def rights_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    @pages.get("/v1/rights", responses=errors(422, 503))
    async def rights(
        request: Request,
        topic: Annotated[TopicPrefix | None, Query(min_length=1, description="Also those on this topic")] = None,
        group: Annotated[_Name, Query(description="Also those on this group")] = None,
        transactional_id: Annotated[_Name, Query(description="Also those on this transactional id")] = None,
    ) -> RightsView:
        """What the client that asks may do with the cluster, and with one topic, group or transactional id."""

        def on(kind: ResourceType, name: str | None) -> list[str] | None:
            return None if name is None else operations_on(request.scope, kind, name)

        return RightsView(
            principal=sources.principal_of(request.scope),
            has_authorizer=sources.access.is_on,
            cluster=operations_on(request.scope, ResourceType.CLUSTER, CLUSTER_NAME),
            topic=on(ResourceType.TOPIC, topic),
            group=on(ResourceType.GROUP, group),
            transactional_id=on(ResourceType.TRANSACTIONAL_ID, transactional_id),
        )

    return pages
