"""Channels of Databus: any node shows them, and the active controller changes them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from bmq.admin.channels import Channels, NewTopic
from bmq.admin.rest.authorization import may_create_topic
from bmq.admin.rest.channel_views import (
    ChannelChangeView,
    ChannelPage,
    ChannelState,
    ChannelView,
    change_view,
    channel_state,
    channel_view,
)
from bmq.admin.rest.parameters import ChannelName, DryRun, not_here
from bmq.admin.rest.problems import ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.channels.channel import Channel
from bmq.channels.channel_set import channel_set_to_json
from bmq.channels.stored import UnreadableChannel, stored_channel, stored_set
from bmq.channels.value_schema import ValueCheck
from bmq.controller.channels import find_channel
from bmq.metadata.image import MetadataImage

_INT64_MAX: Final = 2**63 - 1
IfVersion = Annotated[
    int | None,
    Query(ge=0, le=_INT64_MAX, description="Only if the channel still has this version; 0: only if there is none"),
]
_CHANGE: Final = errors(400, 403, 409, 413, 422, 503, 504, may_redirect=True)


def channel_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()
    channels = Channels(sources.table_controller, sources.create_topics)

    def here() -> Channels:
        """Raises ElsewhereError with the active controller's address when it is another node, ProblemError when there is none."""
        if not channels.is_active:
            raise not_here(sources)
        return channels

    @pages.get("/v1/channels")
    async def channel_list() -> ChannelPage:
        """All channels, from the node's own metadata."""
        image = sources.image()
        known = channel_set_to_json(stored_set(image.channels, image.channels_version))
        return ChannelPage(cluster_id=image.cluster_id, states=_states(image), **known)

    @pages.get("/v1/channels/{name}", responses=errors(404, 409, 422))
    async def channel(name: ChannelName) -> ChannelView:
        """One channel, and whether its topic is there."""
        image = sources.image()
        return channel_view(image, find_channel(image, name))

    @pages.put(
        "/v1/channels/{name}",
        responses={201: {"model": ChannelChangeView, "description": "It was made."}, **_CHANGE},
    )
    async def put(
        request: Request,
        response: Response,
        name: ChannelName,
        channel: Channel,
        create_topic: Annotated[bool, Query(description="Create the topic if it is missing")] = False,
        partitions: Annotated[
            int | None, Query(ge=1, le=10_000, description="Partitions of a topic that is created [num.partitions]")
        ] = None,
        if_version: IfVersion = None,
        dry_run: DryRun = False,
    ) -> ChannelChangeView:
        """Make a channel, or replace it as a whole; agents follow at once. Sending the same again changes nothing."""
        if channel.name != name:
            raise ProblemError(422, f"body.name is {channel.name}, and the path has {name}")
        if partitions is not None and not create_topic:
            raise ProblemError(422, "partitions counts for a topic that is created, and create_topic is false")
        here()
        if channel.json_schema is not None or channel.protobuf is not None:
            await asyncio.to_thread(ValueCheck, channel)  # compiling a large schema takes milliseconds
        orders = here()
        is_topic_coming = create_topic and not orders.has_topic(channel.topic)
        if is_topic_coming and not may_create_topic(request.scope, channel.topic):
            raise ProblemError(403, f"topic {channel.topic} is missing, and you have no right to CREATE it")
        change = await orders.put(
            channel,
            if_version=if_version,
            new_topic=NewTopic(partitions) if create_topic else None,
            is_dry_run=dry_run,
        )
        if change.is_new and not dry_run:
            response.status_code = 201
        return change_view(sources.image(), change, is_topic_coming=is_topic_coming)

    @pages.delete("/v1/channels/{name}", responses=errors(404, 409, 422, 503, 504, may_redirect=True))
    async def delete(name: ChannelName, if_version: IfVersion = None, dry_run: DryRun = False) -> ChannelChangeView:
        """Delete a channel: agents refuse its records. Its topic stays, with all records."""
        change = await here().delete(name, if_version=if_version, is_dry_run=dry_run)
        return change_view(sources.image(), change, is_topic_coming=False)

    return pages


def _states(image: MetadataImage) -> dict[str, ChannelState]:
    states = {}
    for name in sorted(image.channels):
        try:
            states[name] = channel_state(image, stored_channel(image.channels[name]))
        except UnreadableChannel:
            continue
    return states
