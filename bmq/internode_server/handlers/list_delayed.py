"""ListDelayed: a page of the records that wait in a partition that is owned here."""

from __future__ import annotations

from bmq.internode_server.owned_logs import owned_log
from bmq.log.timers.announcements import Position
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import BmqError
from bmq.protocol.internal_messages import DelayedRecord, ListDelayedRequest, ListDelayedResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services


@handles(ApiKey.LIST_DELAYED)
async def list_delayed(request: ListDelayedRequest, context: RequestContext, services: Services) -> ListDelayedResponse:
    """ListDelayed 0."""
    try:
        log = await owned_log(services, request.topic_id, request.partition, request.leader_epoch)
        page = await log.delayed_records(Position(request.after_due_ms, request.after_offset), max(0, request.limit))
    except BmqError as error:
        return ListDelayedResponse(error_code=error.code, error_message=str(error))
    return ListDelayedResponse(
        count=page.pending,
        next_due_ms=-1 if page.next_due_ms is None else page.next_due_ms,
        records=[DelayedRecord(due_ms=one.due_ms, offset=one.offset) for one in page.records],
    )
