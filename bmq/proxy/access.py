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
from bmq.protocol.topic_names import NAME_LENGTH_MAX
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
        self._grants: dict[tuple[str, str, Operation], TopicGrants] = {}
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

    def allows_client_every(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the client may perform the operation with each resource of the type. Never logged."""
        decider = self._current()
        return decider is None or decider.allows_every(principal, normal_host(host), operation, resource_type)

    def topic_grants(self, context: RequestContext, operation: Operation, image: MetadataImage) -> TopicGrants:
        """Topics that the client was allowed the operation with, while the ACLs are the same. One call is all that they cost a request.

        `image`: the newest metadata, as the caller has it.
        """
        if image.acls is not self._seen:
            self._current()
        key = (context.principal, context.client_host, operation)
        grants = self._grants.get(key)
        if grants is None:
            grants = self._grants[key] = TopicGrants(self, *key)
            self.count_grant()
        return grants

    def count_grant(self) -> None:
        """Count one more name that is remembered. Beyond the limit all are forgotten."""
        self._granted_count += 1
        if self._granted_count > DECISIONS_KEPT_MAX:
            self._forget_grants()

    def _forget_grants(self) -> None:
        # Requests under way keep the grants that they have.
        self._grants = {}
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
                self._forget_grants()
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


class TopicGrants:
    """Topics that one client was allowed one operation with: they are not checked again. Shared by all its requests.

    `names`: of these topics. A request asks for others by TopicRights of its own (`asking`).
    """

    __slots__ = ("_access", "_host", "_operation", "_principal", "names")

    def __init__(self, access: Access, principal: str, host: str, operation: Operation) -> None:
        self._access = access
        self._principal = principal
        self._host = host
        self._operation = operation
        self.names: set[str] = set()

    def ask(self, name: str, api_key: ApiKey) -> bool:
        """Whether the client may perform the operation with this topic by the newest ACLs. Denials are logged."""
        request = request_name(api_key)
        if not self._access.allows_client(
            self._principal, self._host, request, self._operation, ResourceType.TOPIC, name
        ):
            return False
        if len(name) <= NAME_LENGTH_MAX:  # no topic has a longer one, which may be as long as a client chooses
            self.names.add(name)
            self._access.count_grant()
        return True


class TopicRights:
    """One operation of one request's client with topics; each topic is checked once.

    `names`: topics that an earlier request of the client was allowed.
    """

    __slots__ = ("_api_key", "_grants", "_refused", "names")

    def __init__(self, grants: TopicGrants, api_key: ApiKey) -> None:
        self._grants = grants
        self._api_key = api_key
        self._refused: set[str] = set()
        self.names = grants.names

    def allow(self, name: str | None) -> bool:
        """Whether the client may perform the operation with the topic.

        None: no topic has the id that the request names. That is no denial: its handler refuses the id as unknown.
        """
        if name is None or name in self.names:
            return True
        if name in self._refused:
            return False
        if self._grants.ask(name, self._api_key):
            return True
        self._refused.add(name)
        return False


def asking(rights: TopicGrants | TopicRights, api_key: ApiKey) -> TopicRights:
    """The rights by which one request asks for topics that its client's grants do not have."""
    return TopicRights(rights, api_key) if isinstance(rights, TopicGrants) else rights


OPEN: Final = Access(None, dict)
"""Access without an authorizer: everything is allowed."""


def request_name(api_key: ApiKey) -> str:
    """The API's name as Kafka writes it, such as OffsetCommit."""
    return "".join(word.capitalize() for word in api_key.name.split("_"))


def _one_line(text: str) -> str:
    """The text without line breaks: a client's name must not forge lines of the log."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
