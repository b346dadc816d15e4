"""Blocks of producer ids, for brokers of this process and of others (AllocateProducerIds, KIP-730)."""

from __future__ import annotations

from typing import Final

from bmq.controller.api.context import ControllerContext
from bmq.controller.decision import Decision
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import MetadataImage
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from bmq.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from bmq.protocol.metadata_records import ProducerIdsRecord

PRODUCER_IDS_PER_BLOCK: Final = 1_000


class ProducerIdApi:
    """Every block is given out once: it is durable before it is returned."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def allocate(self) -> range:
        """A block of producer ids that was never given out before. Raises KafkaError."""

        def decide(image: MetadataImage, broker: BrokerConfigs) -> Decision[range]:
            first = image.next_producer_id
            last = first + PRODUCER_IDS_PER_BLOCK
            record = ProducerIdsRecord(broker_id=self._context.node.node_id, next_producer_id=last)
            return Decision(range(first, last), (record,))

        return await self._context.decisions.decide(decide, self._context.config.internal_request_wait_max_ms)

    async def allocate_for_node(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        """AllocateProducerIds 0."""
        try:
            self._context.require_epoch(request.broker_id, request.broker_epoch)
            block = await self.allocate()
        except BmqError as error:
            return AllocateProducerIdsResponse(error_code=error.code)
        return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))
