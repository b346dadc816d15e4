"""LocateOffset: the file, and the position in it, of an offset of a partition that is owned here."""

from __future__ import annotations

from bmq.internode_server.owned_logs import owned_log
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import BmqError
from bmq.protocol.internal_messages import LocateOffsetRequest, LocateOffsetResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services


@handles(ApiKey.LOCATE_OFFSET)
async def locate_offset(
    request: LocateOffsetRequest, context: RequestContext, services: Services
) -> LocateOffsetResponse:
    """LocateOffset 0."""
    try:
        log = await owned_log(services, request.topic_id, request.partition, request.leader_epoch)
        location = await log.locate(request.offset)
    except BmqError as error:
        return LocateOffsetResponse(error_code=error.code, error_message=str(error))
    return LocateOffsetResponse(
        path=location.path,
        file_id=location.file_id,
        position=location.position,
        valid_bytes=location.valid_bytes,
        base_offset=location.base_offset,
        end_offset=location.end_offset,
        is_closed=location.is_closed,
        compacted_offset=log.compacted_offset,
    )
