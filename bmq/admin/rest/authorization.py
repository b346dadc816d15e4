"""The right that each path of the REST API asks for; the ACLs that decide about Kafka's APIs decide here too.

A right is asked for before the body is read and before anything is looked up, so a denial does not tell what exists. A path
without a line in RIGHTS asks for ALTER on the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from bmq.admin.rest.principals import STRANGER, PrincipalOf
from bmq.admin.rest.problems import problem_response
from bmq.proxy.access import Access
from bmq.security.acls import CLUSTER_NAME, OPERATIONS_OF, Operation, ResourceType

_STATE: Final = "bmq.rights"
_FORBIDDEN: Final = 403
_NOT_YET: Final = 503


class Right(NamedTuple):
    """`topic`, `group`, `transactional_id`: the parameter of the path that names it; none: the right is over the cluster."""

    operation: Operation
    topic: str | None = None
    group: str | None = None
    transactional_id: str | None = None


FREE: Final = None
"""No right is asked for: health for probes, and pages that are the same everywhere."""
_DESCRIBE: Final = Right(Operation.DESCRIBE)
_ALTER: Final = Right(Operation.ALTER)
_DESCRIBE_CONFIGS: Final = Right(Operation.DESCRIBE_CONFIGS)
_ALTER_CONFIGS: Final = Right(Operation.ALTER_CONFIGS)
_JOBS: Final = Right(Operation.CLUSTER_ACTION)
"""What jobs of the cluster ask for, not people."""
_DESCRIBE_TOPIC: Final = Right(Operation.DESCRIBE, "name")
_READ_TOPIC: Final = Right(Operation.READ, "name")
_WRITE_TOPIC: Final = Right(Operation.WRITE, "name")
_HALF: Final = "/v1/topics/{name}/partitions/{number}/half"
_TRANSACTION: Final = "/v1/transactions/{transactional_id}"
_WRITE_TRANSACTION: Final = Right(Operation.WRITE, transactional_id="transactional_id")
_COMPACTION: Final = "/v1/topics/{name}/partitions/{number}/compaction"

RIGHTS: Final[Mapping[tuple[str, str], Right | None]] = {
    ("GET", "/v1/health"): FREE,
    ("GET", "/v1/health/live"): FREE,
    ("GET", "/"): FREE,
    ("HEAD", "/"): FREE,
    ("GET", "/console/{name}"): FREE,
    ("HEAD", "/console/{name}"): FREE,
    ("GET", "/docs"): FREE,
    ("GET", "/docs/{name}"): FREE,
    ("GET", "/openapi.json"): FREE,
    ("GET", "/metrics"): _DESCRIBE,
    ("GET", "/v1/cluster"): _DESCRIBE,
    ("GET", "/v1/nodes"): _DESCRIBE,
    ("GET", "/v1/nodes/{node_id}"): _DESCRIBE,
    ("GET", "/v1/nodes/{node_id}/partitions"): _DESCRIBE,
    ("GET", "/v1/nodes/{node_id}/configs"): Right(Operation.DESCRIBE_CONFIGS),
    ("GET", "/v1/history"): _DESCRIBE,
    ("GET", "/v1/logs"): _DESCRIBE,
    ("GET", "/v1/topics"): FREE,  # the page leaves out what may not be described
    ("POST", "/v1/topics"): Right(Operation.CREATE),
    ("GET", "/v1/topics/{name}"): _DESCRIBE_TOPIC,
    ("DELETE", "/v1/topics/{name}"): Right(Operation.DELETE, "name"),
    ("POST", "/v1/topics/{name}/partitions"): Right(Operation.ALTER, "name"),
    ("GET", "/v1/topics/{name}/configs"): Right(Operation.DESCRIBE_CONFIGS, "name"),
    ("PATCH", "/v1/topics/{name}/configs"): Right(Operation.ALTER_CONFIGS, "name"),
    ("GET", "/v1/topics/{name}/offsets"): _DESCRIBE_TOPIC,
    ("GET", "/v1/topics/{name}/records"): _READ_TOPIC,
    ("GET", "/v1/topics/{name}/partitions/{number}/records/{offset}/value"): _READ_TOPIC,
    ("POST", "/v1/topics/{name}/records"): _WRITE_TOPIC,
    ("GET", "/v1/topics/{name}/partitions/{number}"): _DESCRIBE_TOPIC,
    ("GET", "/v1/topics/{name}/partitions/{number}/history"): _DESCRIBE_TOPIC,
    ("GET", "/v1/topics/{name}/partitions/{number}/segments"): _DESCRIBE_TOPIC,
    ("GET", "/v1/topics/{name}/timers"): _DESCRIBE_TOPIC,
    ("GET", "/v1/topics/{name}/partitions/{number}/timers"): _DESCRIBE_TOPIC,
    ("POST", "/v1/topics/{name}/partitions/{number}/timers/cancel"): Right(Operation.WRITE, "name"),
    ("GET", _HALF): _DESCRIBE_TOPIC,
    ("POST", _HALF + "/commit"): _WRITE_TOPIC,
    ("POST", _HALF + "/rollback"): _WRITE_TOPIC,
    ("GET", "/v1/groups"): FREE,  # as above; who may describe the cluster sees all groups, as in Kafka
    ("GET", "/v1/groups/{group}/lanes"): Right(Operation.DESCRIBE, group="group"),
    ("POST", "/v1/groups/{group}/lanes/explain"): Right(Operation.DESCRIBE, group="group"),
    ("GET", "/v1/groups/{group}/explain"): Right(Operation.DESCRIBE, group="group"),
    ("POST", "/v1/groups/{group}/offsets"): Right(Operation.READ, group="group"),
    ("DELETE", "/v1/groups/{group}"): Right(Operation.DELETE, group="group"),
    ("GET", "/v1/acls"): _DESCRIBE,
    ("GET", "/v1/users"): _DESCRIBE,
    ("GET", "/v1/quotas"): Right(Operation.DESCRIBE_CONFIGS),
    ("GET", "/v1/rights"): FREE,  # tells a client its own
    ("GET", "/v1/transactions"): FREE,  # the page leaves out what may not be described
    ("POST", _TRANSACTION + "/abort"): _WRITE_TRANSACTION,
    ("GET", "/v1/topics/{name}/transactions"): _READ_TOPIC,
    ("POST", "/v1/topics/{name}/partitions/{number}/transactions/abort"): _ALTER,
    ("GET", _TRANSACTION): Right(Operation.DESCRIBE, transactional_id="transactional_id"),
    ("POST", _TRANSACTION + "/commit"): _WRITE_TRANSACTION,
    ("POST", _TRANSACTION + "/rollback"): _WRITE_TRANSACTION,
    ("GET", "/v1/tasks"): _DESCRIBE,
    ("GET", "/v1/tasks/{task_id}"): _DESCRIBE,
    ("GET", "/v1/tasks/{task_id}/events"): _DESCRIBE,
    ("POST", "/v1/nodes/{node_id}/drain"): _ALTER,
    ("POST", "/v1/nodes/{node_id}/undrain"): _ALTER,
    ("POST", "/v1/rebalance"): _ALTER,
    ("POST", "/v1/scale"): _ALTER,
    ("POST", "/v1/topics/{name}/partitions/{number}/move"): _ALTER,
    ("GET", "/v1/redrives"): _DESCRIBE,
    ("POST", "/v1/redrives"): _ALTER,
    ("GET", "/v1/redrives/{task_id}"): _DESCRIBE,
    ("GET", "/v1/redrives/{task_id}/events"): _DESCRIBE,
    ("DELETE", "/v1/redrives/{task_id}"): _ALTER,
    ("POST", "/v1/views"): _ALTER,
    ("POST", "/v1/views/explain"): _DESCRIBE,
    ("GET", "/v1/tables"): _DESCRIBE,
    ("POST", "/v1/tables"): _ALTER,
    ("GET", "/v1/tables/{name}"): _DESCRIBE,
    ("PUT", "/v1/tables/{name}"): _ALTER,
    ("DELETE", "/v1/tables/{name}"): _ALTER,
    ("GET", "/v1/tables/{name}/status"): _DESCRIBE,
    ("PUT", "/v1/tables/{name}/status"): _JOBS,
    ("GET", "/v1/channels"): _DESCRIBE_CONFIGS,
    ("GET", "/v1/channels/changes"): _DESCRIBE_CONFIGS,
    ("GET", "/v1/channels/agents"): _DESCRIBE_CONFIGS,
    ("GET", "/v1/channels/{name}"): _DESCRIBE_CONFIGS,
    ("PUT", "/v1/channels/{name}"): _ALTER_CONFIGS,  # a topic that is made with it asks for CREATE as well
    ("DELETE", "/v1/channels/{name}"): _ALTER_CONFIGS,
    ("POST", "/v1/indexes/{name}/query"): FREE,  # the page asks for READ on the topic of the index
    ("POST", _COMPACTION): _JOBS,
    ("POST", _COMPACTION + "/{reservation}/swap"): _JOBS,
    ("DELETE", _COMPACTION + "/{reservation}"): _JOBS,
}

OPERATIONS: Final = {
    **OPERATIONS_OF,
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
}
"""What clients are told about, by type of resource."""

_LISTINGS: Final = ("/v1/topics", "/v1/groups", "/v1/transactions", "/v1/rights", "/v1/indexes/{name}/query")
"""Pages that look at the rights of their reader themselves, so the ACLs have to be known."""


class RestRights:
    """What the client of one request may do."""

    def __init__(self, access: Access, principal: str, host: str, request: str) -> None:
        self._access = access
        self._principal = principal
        self._host = host
        self._request = request

    def has(self, right: Right, parameters: Mapping[str, Any], *, is_quiet: bool = False) -> bool:
        """Audited if not, unless `is_quiet`."""
        kind, name = ResourceType.CLUSTER, CLUSTER_NAME
        if right.topic is not None:
            kind, name = ResourceType.TOPIC, str(parameters[right.topic])
        elif right.group is not None:
            kind, name = ResourceType.GROUP, str(parameters[right.group])
        elif right.transactional_id is not None:
            kind, name = ResourceType.TRANSACTIONAL_ID, str(parameters[right.transactional_id])
        return self._access.allows_client(
            self._principal, self._host, self._request, right.operation, kind, name, is_quiet=is_quiet
        )

    def sees(self, kind: ResourceType, name: str) -> bool:
        """Whether a listing has the topic or group. Not audited."""
        return self.may(Operation.DESCRIBE, kind, name)

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether the operation is allowed. Not audited."""
        return self._access.allows_client(
            self._principal, self._host, self._request, operation, kind, name, is_quiet=True
        )

    def may_every(self, operation: Operation, kind: ResourceType) -> bool:
        """Whether the operation is allowed with each resource of the kind. Not audited."""
        return self._access.allows_client_every(self._principal, self._host, operation, kind)


def sees_topic(scope: Mapping[str, Any], name: str) -> bool:
    """Whether a listing for this request has the topic; True without an authorizer."""
    rights: RestRights | None = scope.get(_STATE)
    return rights is None or rights.sees(ResourceType.TOPIC, name)


def may_read_topic(scope: Mapping[str, Any], name: str) -> bool:
    """Whether the request's client may read the topic; True without an authorizer. Audited if not."""
    rights: RestRights | None = scope.get(_STATE)
    return rights is None or rights.has(Right(Operation.READ, "topic"), {"topic": name})


def sees_group(scope: Mapping[str, Any], name: str) -> bool:
    """Whether a listing for this request has the group; True without an authorizer."""
    rights: RestRights | None = scope.get(_STATE)
    return rights is None or rights.sees(ResourceType.GROUP, name)


def sees_cluster(scope: Mapping[str, Any]) -> bool:
    """Whether the request's client may describe the cluster; True without an authorizer."""
    rights: RestRights | None = scope.get(_STATE)
    return rights is None or rights.has(_DESCRIBE, {}, is_quiet=True)


def may_create_topic(scope: Mapping[str, Any], name: str) -> bool:
    """Whether the request's client may create a topic of this name, as CreateTopics asks; True without an authorizer."""
    rights: RestRights | None = scope.get(_STATE)
    if rights is None:
        return True
    on_cluster, on_topic = Right(Operation.CREATE), Right(Operation.CREATE, topic="name")
    return rights.has(on_cluster, {}, is_quiet=True) or rights.has(on_topic, {"name": name})


def sees_every_transaction(scope: Mapping[str, Any], topic: str) -> bool:
    """Whether coordinators tell the request's client of each transaction in the topic: it may describe the topic, and every
    transactional id. One denial of a single id is enough to hide a live transaction. True without an authorizer.
    """
    rights: RestRights | None = scope.get(_STATE)
    if rights is None:
        return True
    return rights.sees(ResourceType.TOPIC, topic) and rights.may_every(
        Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID
    )


def operations_on(scope: Mapping[str, Any], kind: ResourceType, name: str) -> list[str]:
    """What the request's client may do with a resource, whether or not it exists; everything without an authorizer. Not audited."""
    rights: RestRights | None = scope.get(_STATE)
    possible = OPERATIONS[kind]
    return [one.name for one in possible if rights is None or rights.may(one, kind, name)]


def sees_problems(scope: Mapping[str, Any]) -> bool:
    """Whether the health names what is wrong: the sentences have names of partitions."""
    return not scope.get(STRANGER) and sees_cluster(scope)


class Authorization:
    """Middleware. `are_acls_known`: once true, it is not asked again."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        principal_of: PrincipalOf,
        are_acls_known: Callable[[], bool],
    ) -> None:
        self._app = app
        self._access = access
        self._principal_of = principal_of
        self._are_acls_known = are_acls_known
        self._were_acls_known = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" and self._access.is_on else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await problem_response(*refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and sentence; None: the request may be answered."""
        method = scope["method"]
        path, parameters = _path_of(method, scope["path"]) or ("unknown path", {})
        client = scope.get("client") or ("unknown", -1)
        rights = RestRights(self._access, self._principal_of(scope), client[0], f"{method} {path}")
        scope[_STATE] = rights
        right = RIGHTS.get((method, path), _ALTER)
        if right is FREE and path not in _LISTINGS:
            return None
        self._were_acls_known = self._were_acls_known or self._are_acls_known()
        if not self._were_acls_known:
            return _NOT_YET, "the ACLs are not known here yet; ask again in a moment"
        if right is FREE or rights.has(right, parameters):
            return None
        what = "the cluster" if right.topic is None else f"topic {parameters[right.topic]}"
        if right.group is not None:
            what = f"group {parameters[right.group]}"
        if right.transactional_id is not None:
            what = f"transactional id {parameters[right.transactional_id]}"
        return _FORBIDDEN, f"{self._principal_of(scope)} has no right to {right.operation.name} on {what}"


def _parameter(name: str) -> str:
    """The name of a group, and a transactional id, may have slashes."""
    return f"(?P<{name}>.+)" if name in ("group", "transactional_id") else f"(?P<{name}>[^/]+)"


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(
        "".join(
            _parameter(one[1:-1]) if one[0] == "{" else re.escape(one) for one in re.split(r"(\{\w+\})", path) if one
        )
    )


_PATTERNS: Final = [(method, path, _pattern(path)) for method, path in RIGHTS]


def _path_of(method: str, path: str) -> tuple[str, Mapping[str, str]] | None:
    """The path of RIGHTS that a request is for, and its parameters."""
    for known_method, known, pattern in _PATTERNS:
        if known_method == method and (found := pattern.fullmatch(path)) is not None:
            return known, found.groupdict()
    return None
