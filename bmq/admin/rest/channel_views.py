"""Requests and answers of the channel pages. Timestamps are RFC 3339, in UTC."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from bmq.admin.channel_agents import SeenAgent
from bmq.admin.rest.views import at_ms
from bmq.channels.channel import Channel
from bmq.channels.stored import StoredChannel
from bmq.controller.channels import ChannelChange, topic_problem
from bmq.metadata.image import MetadataImage


class ChannelView(BaseModel):
    """`version`: of all channels together, when this one was last changed. `topic_problem`: why nothing can be produced to
    its topic, which may have been deleted since; null: nothing is wrong.
    """

    channel: Channel
    version: int
    created_at: datetime
    altered_at: datetime
    topic_problem: str | None


class ChannelState(BaseModel):
    """What a ChannelView says beside the channel itself."""

    version: int
    created_at: datetime
    altered_at: datetime
    topic_problem: str | None


class ChannelSetView(BaseModel):
    """All channels at one version. `version` grows with each change; numbers of another `cluster_id` are others.

    `unreadable`: names of channels that a later release wrote, each with why this node does not understand it.
    """

    version: int
    cluster_id: str
    channels: list[Channel]
    unreadable: dict[str, str]


class ChannelPage(ChannelSetView):
    """`states`: of each channel, by name."""

    states: dict[str, ChannelState]


class ChannelChangeView(BaseModel):
    """`summary` is one sentence, `changes` has one for each key that differs. `version`: of all channels, afterwards.

    `channel`: afterwards; null when it is deleted. With `dry_run` all of this is what would be.
    """

    summary: str
    changes: list[str]
    version: int
    channel: ChannelView | None


class AgentView(BaseModel):
    """`address`: where it asked from. `applied_version`: of all channels, as it said last; null: it has not said.

    `seen_ms_ago`: since it began to ask, or was answered. `is_waiting`: a request of it waits for a change now.
    """

    id: str
    address: str
    applied_version: int | None
    seen_ms_ago: int
    is_waiting: bool


class AgentPage(BaseModel):
    """Agents that asked this node within the last hour. `version`: of the channels here. `count`: of all those agents.

    `next_after`: what to ask for next as `after`; null on the last page.
    """

    node_id: int
    version: int
    count: int
    agents: list[AgentView]
    next_after: str | None


def channel_state(image: MetadataImage, stored: StoredChannel) -> ChannelState:
    return ChannelState(
        version=stored.version,
        created_at=at_ms(stored.created_at_ms),
        altered_at=at_ms(stored.altered_at_ms),
        topic_problem=topic_problem(image, stored.channel.topic),
    )


def channel_view(image: MetadataImage, stored: StoredChannel) -> ChannelView:
    return ChannelView(channel=stored.channel, **dict(channel_state(image, stored)))


def change_view(image: MetadataImage, change: ChannelChange, *, is_topic_coming: bool) -> ChannelChangeView:
    view = None if change.stored is None else channel_view(image, change.stored)
    if view is not None and is_topic_coming:
        view.topic_problem = None
    return ChannelChangeView(summary=change.summary, changes=list(change.changes), version=change.version, channel=view)


def agent_view(agent: SeenAgent, now_ms: int) -> AgentView:
    return AgentView(
        id=agent.agent_id,
        address=agent.address,
        applied_version=agent.applied_version,
        seen_ms_ago=max(0, now_ms - agent.last_seen_ms),
        is_waiting=agent.open_polls > 0,
    )
