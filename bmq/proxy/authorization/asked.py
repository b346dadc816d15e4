"""A request with its client's rights, and the simplest rules: a right over the cluster, or over one group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from bmq.metadata.image import MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.refusals import refused
from bmq.protocol.request_context import RequestContext
from bmq.proxy.access import Access
from bmq.security.acls import Operation, ResourceType

Answer = Callable[[Any], Awaitable[Any]]
"""The API's own handler, called with the part of the request that is allowed."""


class Asked:
    """One request, and the rights of its client."""

    def __init__(
        self, api_key: ApiKey, request: Any, context: RequestContext, access: Access, image: MetadataImage
    ) -> None:
        self.api_key = api_key
        self.request = request
        self.context = context
        self.access = access
        self.image = image

    def _may(self, operation: Operation, kind: ResourceType, name: str, *, is_quiet: bool, count: int = 1) -> bool:
        return self.access.allows(self.context, self.api_key, operation, kind, name, is_quiet=is_quiet, count=count)

    def topic(self, operation: Operation, name: str, *, is_quiet: bool = False, count: int = 1) -> bool:
        return self._may(operation, ResourceType.TOPIC, name, is_quiet=is_quiet, count=count)

    def group(self, operation: Operation, name: str, *, is_quiet: bool = False) -> bool:
        return self._may(operation, ResourceType.GROUP, name, is_quiet=is_quiet)

    def transaction(self, operation: Operation, name: str, *, is_quiet: bool = False) -> bool:
        return self._may(operation, ResourceType.TRANSACTIONAL_ID, name, is_quiet=is_quiet)

    def cluster(self, operation: Operation, *, is_quiet: bool = False) -> bool:
        return self.access.allows(self.context, self.api_key, operation, ResourceType.CLUSTER, is_quiet=is_quiet)

    def refused(self, code: ErrorCode, message: str = "") -> Any:
        """The answer that refuses the whole request."""
        return refused(self.api_key, self.request, code, message or SAID.get(code, ""))

    def name_of(self, one: Any) -> str | None:
        """The name of a topic that the request names by name or by id; None if no topic has the id."""
        if getattr(one, "name", None):
            name: str = one.name
            return name
        topic = self.image.topics_by_id.get(getattr(one, "topic_id", None))  # type: ignore[arg-type]
        return None if topic is None else topic.name


Rule = Callable[[Asked, Answer], Awaitable[Any]]

SAID: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
CLUSTER_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def anyone(asked: Asked, answer: Answer) -> Any:
    """The rule of APIs that demand no right."""
    return await answer(asked.request)


def of_cluster(operation: Operation) -> Rule:
    """The rule that demands this operation on the cluster."""

    async def rule(asked: Asked, answer: Answer) -> Any:
        if not asked.cluster(operation):
            return asked.refused(CLUSTER_DENIED)
        return await answer(asked.request)

    return rule


def of_group(operation: Operation) -> Rule:
    """The rule that demands this operation on the group that the request names."""

    async def rule(asked: Asked, answer: Answer) -> Any:
        if not asked.group(operation, asked.request.group_id):
            return asked.refused(GROUP_DENIED)
        return await answer(asked.request)

    return rule


def parted(items: Iterable[Any], is_allowed: Callable[[Any], bool]) -> tuple[list[Any], list[Any]]:
    allowed: list[Any] = []
    denied: list[Any] = []
    for one in items:
        (allowed if is_allowed(one) else denied).append(one)
    return allowed, denied


def cluster_operations(asked: Asked) -> int:
    if not asked.cluster(Operation.DESCRIBE, is_quiet=True):
        return 0
    return asked.access.operations(asked.context, ResourceType.CLUSTER)


def may_create(asked: Asked, name: str) -> bool:
    return asked.cluster(Operation.CREATE, is_quiet=True) or asked.topic(Operation.CREATE, name)
