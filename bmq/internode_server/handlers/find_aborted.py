"""FindAborted: the aborted transactions that another node's reader has to leave out of a range of offsets."""

from __future__ import annotations

from bmq.internode_server.owned_logs import owned_log
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.internal_messages import AbortedRange, FindAbortedRequest, FindAbortedResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services


@handles(ApiKey.FIND_ABORTED)
async def find_aborted(request: FindAbortedRequest, context: RequestContext, services: Services) -> FindAbortedResponse:
    """FindAborted 0: all that a read of the range needs: those with their marker in the range, or open at its end."""
    try:
        log = await owned_log(services, request.topic_id, request.partition, request.leader_epoch)
        if request.from_offset < log.log_start_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"what was aborted below the start of the log, {log.log_start_offset}, is forgotten",
            )
        if request.to_offset > log.last_stable_offset:
            raise KafkaError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"{request.to_offset} is past the last stable offset {log.last_stable_offset}",
            )
        found = log.aborted_transactions(request.from_offset, request.to_offset)
    except BmqError as error:
        return FindAbortedResponse(error_code=error.code, error_message=str(error))
    return FindAbortedResponse(
        aborted=[AbortedRange(producer_id=one.producer_id, first_offset=one.first_offset) for one in found]
    )
