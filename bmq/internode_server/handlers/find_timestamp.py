"""FindTimestamp: the first record at or past a time, or the one with the greatest time."""

from __future__ import annotations

from typing import Final

from bmq.internode_server.owned_logs import owned_log
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import BmqError
from bmq.protocol.internal_messages import FindTimestampRequest, FindTimestampResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services

GREATEST_TIMESTAMP: Final = -3


@handles(ApiKey.FIND_TIMESTAMP)
async def find_timestamp(
    request: FindTimestampRequest, context: RequestContext, services: Services
) -> FindTimestampResponse:
    """FindTimestamp 0."""
    try:
        log = await owned_log(services, request.topic_id, request.partition, request.leader_epoch)
        if request.timestamp_ms == GREATEST_TIMESTAMP:
            found = await log.max_timestamp()
        else:
            found = await log.offset_for_timestamp(request.timestamp_ms, request.bound_offset)
    except BmqError as error:
        return FindTimestampResponse(error_code=error.code, error_message=str(error))
    return FindTimestampResponse() if found is None else FindTimestampResponse(offset=found[0], timestamp_ms=found[1])
