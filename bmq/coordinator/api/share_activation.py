"""Tells the shards of share partitions which member alone may acquire (see bmq/coordinator/share_membership/activation.py)."""

from __future__ import annotations

from typing import Final

import structlog

from bmq.coordinator.api.share_states_api import ShareStatesApi
from bmq.coordinator.group_shard import GroupShard
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.share_state_messages import ActivePartition

_log: Final = structlog.get_logger("bmq.coordinator")


async def activate(shard: GroupShard, group_id: str, states: ShareStatesApi) -> None:
    """Tell the shards the members that they do not know yet. A shard that cannot be reached is told with the next heartbeat."""
    group, activation = shard.share.find(group_id), shard.share.activation(group_id)
    if group is None or activation is None:
        return
    epoch = group.target_epoch
    wanted = activation.begin(epoch, group.targets)
    if not wanted:
        return
    left = dict(wanted)
    try:
        parts = [
            ActivePartition(topic_id=topic_id, partition=number, member_id=member_id)
            for (topic_id, number), member_id in wanted.items()
        ]
        for part in await states.activate(group_id, epoch, parts):
            # FENCED_STATE_EPOCH: a later target is known there already.
            if part.error_code in (ErrorCode.NONE, ErrorCode.FENCED_STATE_EPOCH):
                del left[part.topic_id, part.partition]
    except BmqError as error:
        _log.info("share_member_not_activated", group=group_id, error=str(error))
    finally:
        if left:
            activation.failed(epoch, left)
