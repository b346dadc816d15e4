"""OffsetCommit: how far a group has come, made durable."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.offset_commit_request import OffsetCommitRequest
from bmq.protocol.messages.offset_commit_response import OffsetCommitResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.OFFSET_COMMIT)
async def offset_commit(
    request: OffsetCommitRequest, context: RequestContext, services: Services
) -> OffsetCommitResponse:
    """See GroupCoordinator.offset_commit."""
    response: OffsetCommitResponse = await services.groups.offset_commit(request, context)
    return response
