"""Decides which operations a client may perform at this listener, and logs denials as Kafka's `kafka.authorizer.logger` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

import structlog

from bmq.metadata.acl_journal import AclSnapshot
from bmq.metadata.image import MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.request_context import RequestContext
from bmq.protocol.turns import Pace, Turns
from bmq.security.acls import CLUSTER_NAME, OPERATIONS_OF, PRINTED, Acl, Operation, ResourceType
from bmq.security.authorizer import DECISIONS_KEPT_MAX, Decider, Verdict, normal_host

AUDIT: Final = "kafka.authorizer.logger"
_audit = structlog.get_logger(AUDIT)


class Access:
    """Checks clients' rights. Without an authorizer (`decider` is None, `is_on` False) everything is allowed.

    `acls`: returns the ACLs of the newest metadata.
    """

    def __init__(self, decider: Decider | None, acls: Callable[[], Mapping[UUID, Acl]]) -> None:
        self._decider = decider
        self._acls = acls
        self._seen: Mapping[UUID, Acl] | None = None
        self._granted: dict[tuple[str, str, Operation], set[str]] = {}
        self._granted_count = 0
        self.is_on = decider is not None

    def allows(
        self,
        context: RequestContext,
        api_key: ApiKey,
        operation: Operation,
        resource_type: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        is_quiet: bool = False,
        count: int = 1,
    ) -> bool:
        """Whether the client may perform the operation with this resource.

        `is_quiet`: do not log a denial, because another right would do as well, or the client did not name the resource.
        `count`: how many resources of the request this check stands for.
        """
        verdict = self._verdict(context.principal, context.client_host, operation, resource_type, name)
        if verdict is None or verdict.is_allowed:
            return True
        if not is_quiet:
            request = request_name(api_key)
            _log_refusal(
                context.principal, context.client_host, operation, resource_type, name, request, count, verdict
            )
        return False

    def may_describe(self, context: RequestContext, topic: str) -> bool:
        """Whether the client may describe the topic, so that a regular expression that it sends may match it. Never logged."""
        heartbeat = ApiKey.CONSUMER_GROUP_HEARTBEAT
        return self.allows(context, heartbeat, Operation.DESCRIBE, ResourceType.TOPIC, topic, is_quiet=True)

    def allows_client(
        self,
        principal: str,
        host: str,
        request: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        is_quiet: bool = False,
        count: int = 1,
    ) -> bool:
        """Check as `allows` does, for a request of any protocol. `request`: its name in the log."""
        verdict = self._verdict(principal, host, operation, resource_type, name)
        if verdict is None or verdict.is_allowed:
            return True
        if not is_quiet:
            _log_refusal(principal, host, operation, resource_type, name, request, count, verdict)
        return False

    def granted_topics(self, principal: str, host: str, operation: Operation) -> set[str]:
        """Topics that the client was allowed the operation with, while the ACLs are the same. `grant_topic` adds to them."""
        self._current()
        key = (principal, host, operation)
        granted = self._granted.get(key)
        if granted is None:
            granted = self._granted[key] = set()
            self._count_granted()
        return granted

    def grant_topic(self, granted: set[str], name: str) -> None:
        """Remember that the client was allowed the operation with this topic."""
        granted.add(name)
        self._count_granted()

    def _count_granted(self) -> None:
        self._granted_count += 1
        if self._granted_count > DECISIONS_KEPT_MAX:
            self._forget_granted()

    def _forget_granted(self) -> None:
        # Requests under way keep the sets that they have.
        self._granted = {}
        self._granted_count = 0

    def _verdict(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Verdict | None:
        decider = self._current()
        return None if decider is None else decider.decide(principal, normal_host(host), operation, resource_type, name)

    def allows_any(
        self, context: RequestContext, api_key: ApiKey, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether the client may perform the operation with at least one resource of this type."""
        decider = self._current()
        if decider is None:
            return True
        host = normal_host(context.client_host)
        verdict = decider.decide_by_type(context.principal, host, operation, resource_type)
        if not verdict.is_allowed:
            resource = f"{PRINTED[resource_type]}:LITERAL:hardcode"
            _log_denial(context.principal, host, operation, resource, f"{request_name(api_key)} with", 1, verdict)
        return verdict.is_allowed

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """The operations that the client may perform, as bits (KIP-430). Never logged."""
        decider = self._current()
        host = normal_host(context.client_host)
        return sum(
            1 << operation
            for operation in OPERATIONS_OF[resource_type]
            if decider is None or decider.decide(context.principal, host, operation, resource_type, name).is_allowed
        )

    async def prepare(self, turns: Turns) -> None:
        """Index the newest ACLs in turns of the event loop. A request that comes before the end has to index them all at once."""
        decider, acls, pace = self._decider, self._acls(), Pace()
        if decider is None or self._seen is not None:
            return
        for acl_id, acl in acls.items():
            decider.change(((acl_id, acl),))
            if pace.is_over():
                await turns.next()
                if self._seen is not None:
                    return
        self._seen = acls

    def _current(self) -> Decider | None:
        """The decider for the ACLs of the newest metadata; None without an authorizer."""
        decider = self._decider
        if decider is not None:
            acls = self._acls()
            if acls is not self._seen:
                changes = acls.since(self._seen) if isinstance(acls, AclSnapshot) else None
                if changes is None:
                    decider.replace(acls)
                else:
                    decider.change(changes)
                self._seen = acls
                self._forget_granted()
        return decider


def _log_refusal(
    principal: str,
    host: str,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    request: str,
    count: int,
    verdict: Verdict,
) -> None:
    resource = f"{PRINTED[resource_type]}:LITERAL:{_one_line(name)}"
    _log_denial(principal, normal_host(host), operation, resource, f"{request} with", count, verdict)


def _log_denial(
    principal: str, host: str, operation: Operation, resource: str, request: str, count: int, verdict: Verdict
) -> None:
    """Log a denial. Kafka also logs allowed operations (DEBUG) and resources that were not named (TRACE); we do not."""
    _audit.info(
        f"Principal = {_one_line(principal)} is Denied operation = {operation.name} from host = {host} "
        f"on resource = {resource} for request = {request} resourceRefCount = {count} based on rule {_one_line(verdict.rule)}"
    )


class TopicRights:
    """One operation of one request's client with topics; each topic is checked once.

    `image`: the metadata by which topic ids have names. `granted`: topics that an earlier request of the client was allowed, so
    that they are not checked again.
    """

    __slots__ = ("_access", "_api_key", "_context", "_image", "_operation", "_refused", "granted")

    def __init__(
        self, access: Access, context: RequestContext, api_key: ApiKey, operation: Operation, image: MetadataImage
    ) -> None:
        self._access = access
        self._context = context
        self._api_key = api_key
        self._operation = operation
        self._image = image
        self._refused: set[str] | None = None
        self.granted = access.granted_topics(context.principal, context.client_host, operation)

    def allow(self, name: str | None, topic_id: UUID | None) -> bool:
        """Whether the client may perform the operation with the topic of this name or id.

        True for an id that no topic has: the request's handler refuses it as unknown.
        """
        if name is None:
            topic = None if topic_id is None else self._image.topics_by_id.get(topic_id)
            if topic is None:
                return True
            name = topic.name
        if name in self.granted:
            return True
        if self._refused is None:
            self._refused = set()
        elif name in self._refused:
            return False
        if self._access.allows(self._context, self._api_key, self._operation, ResourceType.TOPIC, name):
            self._access.grant_topic(self.granted, name)
            return True
        self._refused.add(name)
        return False


OPEN: Final = Access(None, dict)
"""Access without an authorizer: everything is allowed."""


def request_name(api_key: ApiKey) -> str:
    """The API's name as Kafka writes it, such as OffsetCommit."""
    return "".join(word.capitalize() for word in api_key.name.split("_"))


def _one_line(text: str) -> str:
    """The text without line breaks: a client's name must not forge lines of the log."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
