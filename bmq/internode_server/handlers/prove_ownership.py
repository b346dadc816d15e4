"""ProveOwnership: a partition's offsets, from a node that still owned it after the request came (rule 15)."""

from __future__ import annotations

from bmq.internode_server.owned_logs import owned_log, started_log
from bmq.internode_server.tail_feed import aborted_between, epoch_starts_of
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import BmqError
from bmq.protocol.internal_messages import ProveOwnershipRequest, ProveOwnershipResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services


@handles(ApiKey.PROVE_OWNERSHIP)
async def prove_ownership(
    request: ProveOwnershipRequest, context: RequestContext, services: Services
) -> ProveOwnershipResponse:
    """ProveOwnership 0. Starts an idle partition, unless it is for a glance."""
    try:
        if request.is_glance:
            seen = started_log(services, request.topic_id, request.partition, request.leader_epoch)
            return ProveOwnershipResponse(high_watermark=seen.high_watermark)
        log = await owned_log(services, request.topic_id, request.partition, request.leader_epoch)
        await log.prove_ownership()
    except BmqError as error:
        return ProveOwnershipResponse(error_code=error.code, error_message=str(error))
    high_watermark = log.high_watermark
    aborted, aborted_from_offset = b"", -1
    if log.aborted and request.known_offset >= 0:
        aborted, aborted_from_offset = aborted_between(log, request.known_offset, high_watermark)
    return ProveOwnershipResponse(
        log_start_offset=log.log_start_offset,
        high_watermark=high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_end_offset=log.log_end_offset,
        epochs=epoch_starts_of(log),
        aborted=aborted,
        aborted_from_offset=aborted_from_offset,
    )
