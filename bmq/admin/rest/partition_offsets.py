"""Asks for offsets of a topic's partitions: the first, the end, or by time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from bmq.admin.rest.user_requests import UserRequests
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

EARLIEST: Final = -2
LATEST: Final = -1
COMMITTED: Final = 1
"""The isolation level at which only committed records are read."""
RETRY_S: Final = 3.0
"""Partitions that are being started or moved are asked again for this long."""
RETRY_PAUSE_S: Final = 0.1
_PASSING: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE)
_REPLICA_OF_CLIENTS: Final = -1


async def offsets_of(
    requests: UserRequests, topic: str, partitions: Iterable[int], time: int, isolation_level: int = COMMITTED
) -> Mapping[int, tuple[int, int]]:
    """(offset, error code) by partition. `time`: EARLIEST, LATEST, or the first record at this time or later, in ms.

    The offset is -1 where no record is so new. Raises ProblemError.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + RETRY_S
    found: dict[int, tuple[int, int]] = {}
    left = list(partitions)
    while left:
        asked = [ListOffsetsPartition(partition_index=number, timestamp=time) for number in left]
        request = ListOffsetsRequest(
            replica_id=_REPLICA_OF_CLIENTS,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=topic, partitions=asked)],
            timeout_ms=10_000,
        )
        response = await requests.ask(ApiKey.LIST_OFFSETS, request)
        found |= {
            one.partition_index: (one.offset, one.error_code) for each in response.topics for one in each.partitions
        }
        left = [number for number in left if number in found and found[number][1] in _PASSING]
        if left and loop.time() >= until_s:
            break
        if left:
            await asyncio.sleep(RETRY_PAUSE_S)
    return found
