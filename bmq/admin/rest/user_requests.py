"""Kafka requests for the client of one REST request, and what Kafka's error codes are in HTTP."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import Request

from bmq.admin.ports import KafkaRequests
from bmq.admin.rest.problems import ProblemError
from bmq.admin.rest.sources import RestSources
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

ANSWER_WAIT_S: Final = 20.0
"""A longer wait for an answer ends with 504."""
CHANGE_WAIT_MS: Final = 15_000
"""The time limit that changes of topics have."""
_STATUS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.UNKNOWN_TOPIC_ID: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.RESOURCE_NOT_FOUND: 404,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: 404,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: 403,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 403,
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
    ErrorCode.NON_EMPTY_GROUP: 409,
    ErrorCode.UNKNOWN_MEMBER_ID: 409,
    ErrorCode.ILLEGAL_GENERATION: 409,
    ErrorCode.FENCED_MEMBER_EPOCH: 409,
    ErrorCode.POLICY_VIOLATION: 409,
    ErrorCode.SECURITY_DISABLED: 409,
    ErrorCode.UNSUPPORTED_VERSION: 409,
    ErrorCode.INVALID_TOPIC_EXCEPTION: 422,
    ErrorCode.INVALID_PARTITIONS: 422,
    ErrorCode.INVALID_REPLICATION_FACTOR: 422,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: 422,
    ErrorCode.INVALID_CONFIG: 422,
    ErrorCode.INVALID_REQUEST: 422,
    ErrorCode.INVALID_RECORD: 422,
    ErrorCode.INVALID_TIMESTAMP: 422,
    ErrorCode.INVALID_GROUP_ID: 422,
    ErrorCode.OFFSET_OUT_OF_RANGE: 422,
    ErrorCode.MESSAGE_TOO_LARGE: 422,
    ErrorCode.RECORD_LIST_TOO_LARGE: 422,
    ErrorCode.REQUEST_TIMED_OUT: 504,
}


def refusal(code: int, message: str | None = None) -> ProblemError:
    """The problem for a code in a response. Codes that say nothing against the request are 503: it may be sent again."""
    kind = ErrorCode(code)
    return ProblemError(_STATUS.get(kind, 503), message or kind.name)


def check(code: int, message: str | None = None) -> None:
    """Raises ProblemError for a code that is not NONE."""
    if code:
        raise refusal(code, message)


class UserRequests:
    """Sends requests as the principal, and from the address, of a REST request."""

    def __init__(self, kafka: KafkaRequests, principal: str, host: str) -> None:
        self._kafka = kafka
        self._principal = principal
        self._host = host

    def now_ms(self) -> int:
        """Wall time."""
        return self._kafka.now_ms()

    async def ask(self, api_key: ApiKey, request: Any, wait_s: float = ANSWER_WAIT_S) -> Any:
        """The response, in which single topics and partitions may be refused. Raises ProblemError."""
        try:
            async with asyncio.timeout(wait_s):
                return await self._kafka.ask(api_key, request, principal=self._principal, host=self._host)
        except TimeoutError:
            raise ProblemError(504, f"{api_key.name} was not answered within {wait_s:g} s") from None
        except BmqError as error:
            raise refusal(error.code, str(error)) from error


def user_requests(sources: RestSources, request: Request) -> UserRequests:
    """Raises ProblemError while this node does not serve, and where nobody logs in though Kafka's clients have to."""
    if sources.why_no_requests:
        raise ProblemError(403, sources.why_no_requests)
    return unguarded_requests(sources, request)


def unguarded_requests(sources: RestSources, request: Request) -> UserRequests:
    """As `user_requests`, also where nobody logs in though Kafka's clients have to: for what this address shows to anyone.

    Raises ProblemError while this node does not serve.
    """
    kafka = sources.kafka()
    if kafka is None:
        raise ProblemError(503, "this node does not serve yet; ask again in a moment")
    client = request.client
    return UserRequests(kafka, sources.principal_of(request.scope), "unknown" if client is None else client.host)
