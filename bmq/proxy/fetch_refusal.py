"""The answers to Fetch requests that are refused as a whole, in each version's form. Pure."""

from __future__ import annotations

from typing import Final

from bmq.protocol.codec import RequestHeader
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.hot_fetch import FetchResult, FetchTopicResult, encode_fetch_response
from bmq.protocol.messages.fetch_request import FetchRequest
from bmq.protocol.parts import Part

ISOLATION_LEVELS: Final = (0, 1)
"""The valid levels: read_uncommitted, read_committed. For others Kafka's code throws, so the answer is UNKNOWN_SERVER_ERROR."""
_TOPIC_IDS_FROM: Final = 13


def refused_fetch(header: RequestHeader, request: FetchRequest, code: ErrorCode) -> list[Part]:
    """The frame of a refusal. Versions that name topics have the code in each partition too (the first has no other field)."""
    topics = [] if header.api_version >= _TOPIC_IDS_FROM else request.topics
    return encode_fetch_response(
        header.api_version,
        header.correlation_id,
        [
            FetchTopicResult(
                topic.topic,
                None,
                [FetchResult(one.partition, code, aborted_transactions=()) for one in topic.partitions],
            )
            for topic in topics
        ],
        error_code=code,
        session_id=request.session_id,
    )


def throttled_fetch(header: RequestHeader, answered: tuple[int, int], throttle_time_ms: int) -> list[Part]:
    """The frame of the empty answer to a client beyond its quota. `answered`: (error code, session id)."""
    error_code, session_id = answered
    return encode_fetch_response(
        header.api_version,
        header.correlation_id,
        (),
        error_code=error_code,
        session_id=session_id,
        throttle_time_ms=throttle_time_ms,
    )


def failed_fetch(header: RequestHeader) -> list[Part]:
    """The frame of the answer after a bug of ours. No version has a field for a message."""
    return encode_fetch_response(
        header.api_version, header.correlation_id, (), error_code=ErrorCode.UNKNOWN_SERVER_ERROR
    )
