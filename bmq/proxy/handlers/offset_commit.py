"""OffsetCommit in its usual form, to a group whose coordinator is this process: answered without a task.

Other commits are forwarded to the coordinators like other requests (forwarded.py).
"""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader, encode_response_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles_eagerly
from bmq.proxy.reply import Reply
from bmq.proxy.services import Services


@handles_eagerly(ApiKey.OFFSET_COMMIT)
def offset_commit(
    frame: bytearray,
    header: RequestHeader,
    context: RequestContext,
    received_s: float,
    services: Services,
    reply: Reply,
) -> bool:
    """OffsetCommit 6-10."""
    asked = services.plain_commits.parse(frame, header.body_position, header.api_version)
    if asked is None:
        return False
    head = encode_response_header(ApiKey.OFFSET_COMMIT, header.api_version, header.correlation_id)

    def done(_error: ErrorCode, body: bytes) -> None:
        reply((head, body))

    return services.groups.commit_at_once(asked, context, received_s, done)
