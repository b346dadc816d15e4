"""DeleteBefore: raises the log start offset of a partition that is owned here."""

from __future__ import annotations

from bmq.internode_server.owned_logs import owned_log
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import BmqError
from bmq.protocol.internal_messages import DeleteBeforeRequest, DeleteBeforeResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services


@handles(ApiKey.DELETE_BEFORE)
async def delete_before(
    request: DeleteBeforeRequest, context: RequestContext, services: Services
) -> DeleteBeforeResponse:
    """DeleteBefore 0. Answered when the new start is durable."""
    try:
        log = await owned_log(services, request.topic_id, request.partition, request.leader_epoch)
        log_start_offset = await log.delete_records(request.before_offset)
    except BmqError as error:
        return DeleteBeforeResponse(error_code=error.code, error_message=str(error))
    return DeleteBeforeResponse(log_start_offset=log_start_offset)
