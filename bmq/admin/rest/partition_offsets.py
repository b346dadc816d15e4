"""Asks for offsets of a topic's partitions: the first, the end, or by time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from bmq.admin.rest.user_requests import UserRequests
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

EARLIEST: Final = -2
LATEST: Final = -1
COMMITTED: Final = 1
"""The isolation level at which only committed records are read."""
_REPLICA_OF_CLIENTS: Final = -1


async def offsets_of(
    requests: UserRequests, topic: str, partitions: Iterable[int], time: int, isolation_level: int = COMMITTED
) -> Mapping[int, tuple[int, int]]:
    """(offset, error code) by partition. `time`: EARLIEST, LATEST, or the first record at this time or later, in ms.

    The offset is -1 where no record is so new. Raises ProblemError.
    """
    asked = [ListOffsetsPartition(partition_index=number, timestamp=time) for number in partitions]
    request = ListOffsetsRequest(
        replica_id=_REPLICA_OF_CLIENTS,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=asked)],
        timeout_ms=10_000,
    )
    response = await requests.ask(ApiKey.LIST_OFFSETS, request)
    return {one.partition_index: (one.offset, one.error_code) for each in response.topics for one in each.partitions}
