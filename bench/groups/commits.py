"""Offsets committed by many groups of one shard, as frames made beforehand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from bench.cluster.admin import coordinator_of, leaders
from bench.cluster.many import OFFSETS_TOPIC, groups_in
from bench.core.client import Client, Load
from bench.core.frames import Frames, error_code_at, framed
from bench.groups.target import Target
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bmq.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

GROUPS: Final = 50
SHARD: Final = 7
VERSION: Final = 9
"""The newest that names a topic instead of its id."""


def commit_frames(groups: Sequence[str], topic: str, partitions: int) -> Frames:
    """A commit by each group, which has no members, of every partition of the topic. Pure."""
    wanted = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(partitions)]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=wanted)]
    requests = [
        framed(ApiKey.OFFSET_COMMIT, VERSION, number, OffsetCommitRequest(group_id=group, topics=topics))
        for number, group in enumerate(groups)
    ]
    zero_at = error_code_at(
        ApiKey.OFFSET_COMMIT,
        VERSION,
        lambda code: OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic, partitions=[OffsetCommitResponsePartition(error_code=code) for _ in range(partitions)]
                )
            ]
        ),
    )
    return Frames(b"".join(requests), zero_at)


def commit(
    target: Target, client: Client, topic: str, partitions: int, warm_s: float, seconds: float
) -> dict[str, Any]:
    """As many commits as one shard answers, from a connection for each of GROUPS groups with one commit under way.

    Raises LoadFailed, AdminFailed.
    """
    shards = len(leaders(target.addresses, OFFSETS_TOPIC))
    groups = list(itertools.islice(groups_in(SHARD % shards, shards, "committing"), GROUPS))
    port = int(coordinator_of(target.addresses, groups[0])[1].rpartition(":")[2])
    load = Load(commit_frames(groups, topic, partitions), GROUPS, 1)
    return {**client.put(port, target.processes, load, warm_s=warm_s, seconds=seconds), "shards": shards}
