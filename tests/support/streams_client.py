"""Members of streams groups made of single heartbeats, right or wrong, by kio's schemas: not bmq's own codec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from kio.schema.streams_group_heartbeat.v0 import request as schema
from kio.schema.streams_group_heartbeat.v0.response import StreamsGroupHeartbeatResponse

from testing.wire import WireClient
from tests.support.group_client import retried
from tests.support.kio_client import call

Tasks = Mapping[str, Iterable[int]]
"""subtopology -> partition numbers"""


def topic(name: str, partitions: int = 0) -> Any:
    return schema.TopicInfo(name=name, partitions=partitions, replication_factor=0, topic_configs=())  # type: ignore[arg-type]


def subtopology(subtopology_id: str, sources: Sequence[str] = (), **fields: Any) -> Any:
    """`fields`: as in the schema; what is not given is empty."""
    empty = ("source_topic_regex", "state_changelog_topics", "repartition_sink_topics", "repartition_source_topics")
    return schema.Subtopology(
        subtopology_id=subtopology_id,
        source_topics=tuple(sources),  # type: ignore[arg-type]
        **{"copartition_groups": (), **dict.fromkeys(empty, ()), **fields},
    )


def copartitioned(sources: Sequence[int] = (), repartitions: Sequence[int] = ()) -> Any:
    """Places in the lists of a subtopology's topics."""
    return schema.CopartitionGroup(
        source_topics=tuple(sources),  # type: ignore[arg-type]
        source_topic_regex=(),
        repartition_source_topics=tuple(repartitions),  # type: ignore[arg-type]
    )


class StreamsClient:
    def __init__(self, client: WireClient) -> None:
        self.wire = client

    def join(
        self, group_id: str, *subtopologies: Any, topology_epoch: int = 0, **fields: Any
    ) -> StreamsGroupHeartbeatResponse:
        """Says everything, as members do. `fields`: what is said otherwise."""
        said = {
            "member_id": str(uuid4()),
            "topology": schema.Topology(epoch=topology_epoch, subtopologies=subtopologies),  # type: ignore[arg-type]
            "rebalance_timeout": timedelta(seconds=60),
            "process_id": "process",
            "active": {},
            "standby": {},
            "warmup": {},
        }
        return self.beat(group_id, epoch=0, **(said | fields))  # type: ignore[arg-type]

    def beat(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        *,
        active: Tasks | None = None,
        standby: Tasks | None = None,
        warmup: Tasks | None = None,
        **fields: Any,
    ) -> StreamsGroupHeartbeatResponse:
        nothing = dict.fromkeys(("client_tags", "task_offsets", "task_end_offsets", "topology"))
        request = schema.StreamsGroupHeartbeatRequest(
            group_id=group_id,  # type: ignore[arg-type]
            member_id=member_id,
            member_epoch=epoch,  # type: ignore[arg-type]
            endpoint_information_epoch=-1,  # type: ignore[arg-type]
            active_tasks=_tasks(active),
            standby_tasks=_tasks(standby),
            warmup_tasks=_tasks(warmup),
            **{**nothing, **fields},
        )
        return retried(
            lambda: call(self.wire, request, StreamsGroupHeartbeatResponse), lambda answer: answer.error_code
        )


def _tasks(tasks: Tasks | None) -> Any:
    if tasks is None:
        return None
    return tuple(
        schema.TaskIds(subtopology_id=name, partitions=tuple(numbers))  # type: ignore[arg-type]
        for name, numbers in tasks.items()
    )
