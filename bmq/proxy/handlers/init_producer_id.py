"""InitProducerId: a new id for a producer whose retries must not create duplicates (KIP-98, KIP-360).

Ids come in blocks, which the controller makes durable before the first id of a block is given out. The rest of a block is never
used after the server stops. As in Kafka, an idempotent producer always gets a new id with epoch 0, even if it asks for a higher
epoch of its present id. Producers with a transactional id are answered by their transaction coordinator.
"""

from __future__ import annotations

from typing import Final

import structlog

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.init_producer_id_request import InitProducerIdRequest
from bmq.protocol.messages.init_producer_id_response import InitProducerIdResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services

_NONE: Final = -1
_log = structlog.get_logger("bmq.proxy")


@handles(ApiKey.INIT_PRODUCER_ID)
async def init_producer_id(
    request: InitProducerIdRequest, context: RequestContext, services: Services
) -> InitProducerIdResponse:
    """InitProducerId 0-5."""
    if request.transactional_id == "" or (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=_NONE, producer_epoch=_NONE)
    if request.transactional_id is not None:
        answer: InitProducerIdResponse = await services.transactions.handle(ApiKey.INIT_PRODUCER_ID, request, context)
        return answer
    try:
        producer_id = await services.producer_ids.next()
    except BmqError as error:
        # Kafka's code for "no ids now". Producers treat other codes as fatal.
        _log.warning("producer_ids_unavailable", error=str(error), code=error.code.name)
        return InitProducerIdResponse(
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_id=_NONE, producer_epoch=_NONE
        )
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
