"""Share groups that are ready to be measured: configured, joined by members, every partition initialized."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from bench.cluster.admin import AdminFailed, Connection, call_any, check, coordinator_of, metadata_request
from bench.cluster.many import insist
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from bmq.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

EARLIEST: Final = {"share.auto.offset.reset": "earliest"}
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
GROUP_RESOURCE: Final = 32
_SET: Final = 0
READY_WAIT_S: Final = 60.0
AGAIN_S: Final = 0.2
_RETRIABLE: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def configure(addresses: Sequence[str], group_id: str, configs: Mapping[str, str] = EARLIEST) -> None:
    """Raises AdminFailed."""
    entries = tuple(AlterableConfig(name=name, config_operation=_SET, value=value) for name, value in configs.items())
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group_id, configs=entries)
    answer = call_any(
        addresses, ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(resources=(resource,))
    )
    for one in answer.responses:
        check(f"configs of group {group_id}", one.error_code, one.error_message)


def topic_id_of(addresses: Sequence[str], topic: str) -> UUID:
    """Raises AdminFailed."""
    found = call_any(addresses, ApiKey.METADATA, metadata_request([topic])).topics[0]
    check(f"metadata of {topic}", found.error_code)
    if found.topic_id is None:
        raise AdminFailed(f"{topic} has no id")
    topic_id: UUID = found.topic_id
    return topic_id


def member_ids(count: int, prefix: str) -> list[str]:
    """Of equal lengths."""
    return [f"{prefix}-{number:08d}" for number in range(count)]


def join(connection: Connection, group_id: str, member_id: str, topic: str) -> Any:
    """The answer to the heartbeat by which a member joins. Raises AdminFailed, OSError."""
    request = ShareGroupHeartbeatRequest(
        group_id=group_id, member_id=member_id, member_epoch=JOIN_EPOCH, subscribed_topic_names=(topic,)
    )
    deadline_s = time.monotonic() + READY_WAIT_S
    while True:
        answer = connection.call(ApiKey.SHARE_GROUP_HEARTBEAT, request)
        if answer.error_code not in _RETRIABLE or time.monotonic() > deadline_s:
            check(f"member {member_id} of {group_id}", answer.error_code, answer.error_message)
            return answer
        time.sleep(AGAIN_S)


@contextmanager
def coordinator(addresses: Sequence[str], group_id: str) -> Iterator[Connection]:
    """A connection to the group's coordinator. Raises AdminFailed, OSError."""
    insist(lambda: coordinator_of(addresses, group_id))
    with Connection(coordinator_of(addresses, group_id)[1]) as connection:
        yield connection


def initialize(addresses: Sequence[str], group_id: str, topic: str, partitions: int) -> None:
    """Return once every partition of the topic can be fetched by members of the group; the group is empty again then.

    Raises AdminFailed, OSError.
    """
    deadline_s = time.monotonic() + READY_WAIT_S
    with coordinator(addresses, group_id) as connection:
        while True:
            answer = join(connection, group_id, "first", topic)
            assigned = answer.assignment.topic_partitions if answer.assignment is not None else ()
            if sum(len(one.partitions) for one in assigned) == partitions:
                break
            if time.monotonic() > deadline_s:
                raise AdminFailed(f"{group_id} has {assigned} of {partitions} partitions after {READY_WAIT_S:g} s")
            time.sleep(AGAIN_S)
        leaving = ShareGroupHeartbeatRequest(group_id=group_id, member_id="first", member_epoch=LEAVE_EPOCH)
        answer = connection.call(ApiKey.SHARE_GROUP_HEARTBEAT, leaving)
        check(f"leaving {group_id}", answer.error_code, answer.error_message)
