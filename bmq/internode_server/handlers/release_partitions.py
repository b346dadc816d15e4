"""ReleasePartitions: a new owner asks for its partitions; drain, seal, let go (rule 8)."""

from __future__ import annotations

from bmq.internode_server.services import internal
from bmq.protocol.apis import ApiKey
from bmq.protocol.internal_messages import ReleasePartitionsRequest, ReleasePartitionsResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services


@handles(ApiKey.RELEASE_PARTITIONS)
async def release_partitions(
    request: ReleasePartitionsRequest, context: RequestContext, services: Services
) -> ReleasePartitionsResponse:
    """Answers when all requested partitions are released."""
    return await internal(services).releases.release(request, services.controller.image)
