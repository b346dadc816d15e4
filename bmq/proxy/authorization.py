"""The right that each API asks for, and how it is answered where the right is missing, as in KafkaApis (4.3).

A rule lets its handler see what is allowed, and answers for the rest. Every served API has one: a listener without a rule
for an API does not start. Produce and Fetch ask for each topic themselves, as they are answered without a task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from bmq.metadata.image import MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from bmq.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from bmq.protocol.messages.describe_topic_partitions_request import TopicRequest
from bmq.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from bmq.protocol.messages.metadata_request import MetadataRequestTopic
from bmq.protocol.refusals import refused
from bmq.protocol.request_context import RequestContext
from bmq.proxy.access import Access
from bmq.proxy.authorization_answers import (
    acls_refused,
    commit_refused,
    coordinator_refused,
    deleted_group_refused,
    described_group_refused,
    described_topic,
    fetched_topic_refused,
    group_refused,
    metadata_topic,
    partitions_with_code,
    topics_of_txn_refused,
)
from bmq.security.acls import Operation, ResourceType

Answer = Callable[[Any], Awaitable[Any]]
"""The API's own handler, for a request with what is allowed."""


class Asked:
    """One request, and what its client may do."""

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
        """The whole request."""
        return refused(self.api_key, self.request, code, message or _SAID.get(code, ""))

    def name_of(self, one: Any) -> str | None:
        """The name of a topic that a request names by name or by id; None: no topic has the id."""
        if getattr(one, "name", None):
            name: str = one.name
            return name
        topic = self.image.topics_by_id.get(getattr(one, "topic_id", None))  # type: ignore[arg-type]
        return None if topic is None else topic.name


Rule = Callable[[Asked, Answer], Awaitable[Any]]

_SAID: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
_CLUSTER_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

_BROKER, _BROKER_LOGGER, _TOPIC, _CLIENT_METRICS, _GROUP = 4, 8, 2, 16, 32
"""Types of resources with configs."""


async def _anyone(asked: Asked, answer: Answer) -> Any:
    """No right is asked for."""
    return await answer(asked.request)


def _of_cluster(operation: Operation) -> Rule:
    """The right to do something with the cluster."""

    async def rule(asked: Asked, answer: Answer) -> Any:
        if not asked.cluster(operation):
            return asked.refused(_CLUSTER_DENIED)
        return await answer(asked.request)

    return rule


def _of_group(operation: Operation) -> Rule:
    """A right over the group that the request names."""

    async def rule(asked: Asked, answer: Answer) -> Any:
        if not asked.group(operation, asked.request.group_id):
            return asked.refused(_GROUP_DENIED)
        return await answer(asked.request)

    return rule


# ---------------------------------------------------------------- topics


def _of_topics(operation: Operation, *, items: str, name: str, answers: str, inner: tuple[str, str, str]) -> Rule:
    """A right over each topic whose partitions a request names; without it each of them is refused.

    `items`, `answers`: the arrays of topics in request and response; `name`: of a topic in both. `inner`: the array of
    partitions in the request, in the response, and a partition's number in the response.
    """

    async def rule(asked: Asked, answer: Answer) -> Any:
        asked_topics = getattr(asked.request, items)
        allowed, denied = _parted(
            asked_topics,
            lambda one: asked.topic(operation, getattr(one, name), count=len(getattr(one, inner[0]) or ())),
        )
        response = await answer(replace(asked.request, **{items: allowed}) if denied else asked.request)
        if denied:
            refusals = [
                partitions_with_code(asked.api_key, getattr(one, name), _numbers(one, inner[0]), _TOPIC_DENIED)
                for one in denied
            ]
            setattr(response, answers, [*getattr(response, answers), *refusals])
        return response

    return rule


def _numbers(topic: Any, name: str) -> Iterable[int]:
    for one in getattr(topic, name) or ():
        if isinstance(one, int):
            yield one
        else:
            yield one.partition_index if hasattr(one, "partition_index") else one.partition


def _parted(items: Iterable[Any], is_allowed: Callable[[Any], bool]) -> tuple[list[Any], list[Any]]:
    allowed: list[Any] = []
    denied: list[Any] = []
    for one in items:
        (allowed if is_allowed(one) else denied).append(one)
    return allowed, denied


async def _leader_epochs(asked: Asked, answer: Answer) -> Any:
    if asked.cluster(Operation.CLUSTER_ACTION, is_quiet=True):
        return await answer(asked.request)
    return await _LEADER_EPOCHS(asked, answer)


_LEADER_EPOCHS: Final = _of_topics(
    Operation.DESCRIBE, items="topics", name="topic", answers="topics", inner=("partitions", "partitions", "partition")
)


async def _metadata(asked: Asked, answer: Answer) -> Any:
    request, context = asked.request, asked.context
    is_all = request.topics is None or (context.api_version == 0 and not request.topics)
    denied: list[Any] = []
    if is_all:
        seen = [name for name in asked.image.topics if asked.topic(Operation.DESCRIBE, name, is_quiet=True)]
        request = replace(
            request,
            topics=[MetadataRequestTopic(name=name) for name in seen],
            allow_auto_topic_creation=False,
        )
    else:
        allowed = []
        for one in request.topics:
            name = asked.name_of(one)
            if name is None or asked.topic(Operation.DESCRIBE, name):
                allowed.append(one)
            else:
                denied.append(one)
        may_create = []
        for one in allowed:
            is_missing = one.name is not None and one.name not in asked.image.topics
            if is_missing and request.allow_auto_topic_creation and not _may_create(asked, one.name):
                denied.append(one)
            else:
                may_create.append(one)
        request = replace(request, topics=may_create)
    response = await answer(request)
    response.topics = [*response.topics, *(metadata_topic(one, _TOPIC_DENIED) for one in denied)]
    if asked.request.include_topic_authorized_operations:
        for one in response.topics:
            if one.error_code == ErrorCode.NONE and one.name is not None:
                one.topic_authorized_operations = asked.access.operations(context, ResourceType.TOPIC, one.name)
    if asked.request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _cluster_operations(asked)
    return response


def _cluster_operations(asked: Asked) -> int:
    if not asked.cluster(Operation.DESCRIBE, is_quiet=True):
        return 0
    return asked.access.operations(asked.context, ResourceType.CLUSTER)


def _may_create(asked: Asked, name: str) -> bool:
    return asked.cluster(Operation.CREATE, is_quiet=True) or asked.topic(Operation.CREATE, name)


async def _describe_topic_partitions(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    denied: list[Any] = []
    if not request.topics:
        seen = [name for name in asked.image.topics if asked.topic(Operation.DESCRIBE, name, is_quiet=True)]
        if not seen:
            return DescribeTopicPartitionsResponse()
        request = replace(request, topics=[TopicRequest(name=name) for name in seen])
    else:
        allowed, denied = _parted(request.topics, lambda one: asked.topic(Operation.DESCRIBE, one.name))
        if not allowed:
            return DescribeTopicPartitionsResponse(topics=[described_topic(one.name, _TOPIC_DENIED) for one in denied])
        request = replace(request, topics=allowed)
    response = await answer(request)
    response.topics = [*response.topics, *(described_topic(one.name, _TOPIC_DENIED) for one in denied)]
    for one in response.topics:
        if one.error_code == ErrorCode.NONE:
            one.topic_authorized_operations = asked.access.operations(asked.context, ResourceType.TOPIC, one.name)
    return response


async def _create_topics(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    denied: list[Any] = []
    if not asked.cluster(Operation.CREATE, is_quiet=True):
        allowed, denied = _parted(request.topics, lambda one: asked.topic(Operation.CREATE, one.name))
        request = replace(request, topics=allowed)
    response = await answer(request)
    for one in response.topics:
        if one.error_code == ErrorCode.NONE and not asked.topic(Operation.DESCRIBE_CONFIGS, one.name, is_quiet=True):
            one.topic_config_error_code = _TOPIC_DENIED
            one.num_partitions = one.replication_factor = -1
            one.configs = None
    refusals = refused(asked.api_key, replace(request, topics=denied), _TOPIC_DENIED, _SAID[_TOPIC_DENIED])
    response.topics = [*response.topics, *refusals.topics]
    return response


async def _delete_topics(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    if asked.cluster(Operation.DELETE, is_quiet=True):
        return await answer(request)
    names, denied_names = _parted(request.topic_names, lambda name: asked.topic(Operation.DELETE, name))
    topics: list[Any] = []
    denied: list[Any] = []
    for one in request.topics:
        name = asked.name_of(one)
        if name is None or asked.topic(Operation.DELETE, name):
            topics.append(one)
        elif one.name is None and not asked.topic(Operation.DESCRIBE, name, is_quiet=True):
            denied.append(one)
        else:
            denied.append(replace(one, name=name))
    response = await answer(replace(request, topic_names=names, topics=topics))
    rest = replace(request, topic_names=denied_names, topics=denied)
    refusals = refused(asked.api_key, rest, _TOPIC_DENIED, _SAID[_TOPIC_DENIED])
    response.responses = [*response.responses, *refusals.responses]
    return response


async def _create_partitions(asked: Asked, answer: Answer) -> Any:
    allowed, denied = _parted(asked.request.topics, lambda one: asked.topic(Operation.ALTER, one.name))
    response = await answer(replace(asked.request, topics=allowed))
    refusals = refused(asked.api_key, replace(asked.request, topics=denied), _TOPIC_DENIED, _SAID[_TOPIC_DENIED])
    response.results = [*response.results, *refusals.results]
    return response


# ---------------------------------------------------------------- configs


def _of_configs(operation: Operation, answers: str) -> Rule:
    """A right over the configs of topics and groups by their names, of everything else by the cluster."""

    async def rule(asked: Asked, answer: Answer) -> Any:
        codes: dict[int, ErrorCode] = {}
        allowed = []
        for one in asked.request.resources:
            code = _config_code(asked, operation, one.resource_type, one.resource_name)
            if code is ErrorCode.NONE:
                allowed.append(one)
            else:
                codes[id(one)] = code
        if not codes:
            return await answer(asked.request)
        response = await answer(replace(asked.request, resources=allowed))
        results = list(getattr(response, answers))
        for one in asked.request.resources:
            if id(one) in codes:
                rest = replace(asked.request, resources=[one])
                results += getattr(refused(asked.api_key, rest, codes[id(one)], _SAID[codes[id(one)]]), answers)
        setattr(response, answers, results)
        return response

    return rule


def _config_code(asked: Asked, operation: Operation, kind: int, name: str) -> ErrorCode:
    if kind == _TOPIC:
        return ErrorCode.NONE if asked.topic(operation, name) else _TOPIC_DENIED
    if kind == _GROUP:
        return ErrorCode.NONE if asked.group(operation, name) else _GROUP_DENIED
    if kind in (_BROKER, _BROKER_LOGGER, _CLIENT_METRICS):
        return ErrorCode.NONE if asked.cluster(operation) else _CLUSTER_DENIED
    return ErrorCode.NONE  # the handler refuses the type


# ---------------------------------------------------------------- groups


async def _offset_commit(asked: Asked, answer: Answer) -> Any:
    if not asked.group(Operation.READ, asked.request.group_id):
        return commit_refused(asked.api_key, asked.request.topics, _GROUP_DENIED)
    return await _commit_topics(asked, answer)


async def _txn_offset_commit(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    if not asked.transaction(Operation.WRITE, request.transactional_id):
        return commit_refused(asked.api_key, request.topics, _ID_DENIED)
    if not asked.group(Operation.READ, request.group_id):
        return commit_refused(asked.api_key, request.topics, _GROUP_DENIED)
    return await _commit_topics(asked, answer)


async def _commit_topics(asked: Asked, answer: Answer) -> Any:
    def is_allowed(one: Any) -> bool:
        name = asked.name_of(one)
        return name is None or asked.topic(Operation.READ, name, count=len(one.partitions))

    allowed, denied = _parted(asked.request.topics, is_allowed)
    if not denied:
        return await answer(asked.request)
    if not allowed:
        return commit_refused(asked.api_key, denied, _TOPIC_DENIED)
    response = await answer(replace(asked.request, topics=allowed))
    response.topics = [*response.topics, *commit_refused(asked.api_key, denied, _TOPIC_DENIED).topics]
    return response


async def _offset_fetch(asked: Asked, answer: Answer) -> Any:
    request, version = asked.request, asked.context.api_version
    if version < 8:
        if not asked.group(Operation.DESCRIBE, request.group_id):
            return asked.refused(_GROUP_DENIED)
        allowed, denied = _described(asked, request.topics)
        response = await answer(request if request.topics is None else replace(request, topics=allowed))
        if request.topics is None:
            response.topics = [one for one in response.topics if _is_described(asked, one)]
        else:
            response.topics = [
                *(response.topics if allowed else ()),
                *(fetched_topic_refused(one, _TOPIC_DENIED, is_grouped=False) for one in denied),
            ]
        return response
    groups, refusals, missing = [], [], {}
    for group in request.groups:
        if not asked.group(Operation.DESCRIBE, group.group_id):
            refusals.append(group_refused(group.group_id, _GROUP_DENIED))
            continue
        allowed, denied = _described(asked, group.topics)
        missing[group.group_id] = denied
        groups.append(group if group.topics is None else replace(group, topics=allowed))
    response = await answer(replace(request, groups=groups))
    all_of = {group.group_id for group in groups if group.topics is None}
    for group in response.groups:
        if group.group_id in all_of:
            group.topics = [one for one in group.topics if _is_described(asked, one)]
        denied = missing.get(group.group_id, [])
        if denied:
            more = (fetched_topic_refused(one, _TOPIC_DENIED, is_grouped=True) for one in denied)
            group.topics = [*group.topics, *more]
    response.groups = [*response.groups, *refusals]
    return response


def _described(asked: Asked, topics: Sequence[Any] | None) -> tuple[list[Any], list[Any]]:
    def is_allowed(one: Any) -> bool:
        name = asked.name_of(one)
        return name is None or asked.topic(Operation.DESCRIBE, name)

    return _parted(topics or (), is_allowed)


def _is_described(asked: Asked, one: Any) -> bool:
    name = asked.name_of(one)
    return name is not None and asked.topic(Operation.DESCRIBE, name, is_quiet=True)


async def _find_coordinator(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    code = _GROUP_DENIED if request.key_type == 0 else _ID_DENIED if request.key_type == 1 else _CLUSTER_DENIED

    def is_allowed(key: str) -> bool:
        if request.key_type == 0:
            return asked.group(Operation.DESCRIBE, key)
        if request.key_type == 1:
            return asked.transaction(Operation.DESCRIBE, key)
        return asked.cluster(Operation.CLUSTER_ACTION)

    if asked.context.api_version < 4:
        return await answer(request) if is_allowed(request.key) else asked.refused(code)
    allowed, denied = _parted(request.coordinator_keys, is_allowed)
    response = await answer(replace(request, coordinator_keys=allowed))
    refusals = (coordinator_refused(key, code, _SAID[code]) for key in denied)
    response.coordinators = [*response.coordinators, *refusals]
    return response


def _describe_each(names: str, *, is_described_by_topics: bool) -> Rule:
    """Of groups: without the right over a group it is refused; one that has a topic which may not be described, too."""

    async def rule(asked: Asked, answer: Answer) -> Any:
        allowed, denied = _parted(
            getattr(asked.request, names), lambda group_id: asked.group(Operation.DESCRIBE, group_id)
        )
        response = await answer(replace(asked.request, **{names: allowed}))
        groups = []
        for group in response.groups:
            if is_described_by_topics and not all(
                asked.topic(Operation.DESCRIBE, name) for name in sorted(topics_of_group(group))
            ):
                refusal = described_group_refused(asked.api_key, group.group_id, _TOPIC_DENIED, _HIDDEN)
                groups.append(refusal)
                continue
            if asked.request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = asked.access.operations(asked.context, ResourceType.GROUP, group.group_id)
            groups.append(group)
        refusals = (described_group_refused(asked.api_key, one, _GROUP_DENIED, _SAID[_GROUP_DENIED]) for one in denied)
        response.groups = [*groups, *refusals]
        return response

    return rule


_HIDDEN: Final = "The group has described topic(s) that the client is not authorized to describe."


def topics_of_group(group: Any) -> set[str]:
    """Topics that a described group of a new protocol names."""
    found: set[str] = set()
    for member in group.members:
        for assignment in (member.assignment, getattr(member, "target_assignment", None)):
            for part in getattr(assignment, "topic_partitions", ()):
                found.add(part.topic_name)
    topology = getattr(group, "topology", None)
    for subtopology in getattr(topology, "subtopologies", None) or ():
        found.update(subtopology.source_topics)
        found.update(subtopology.repartition_sink_topics)
        found.update(one.name for one in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics))
    return found


async def _list_groups(asked: Asked, answer: Answer) -> Any:
    response = await answer(asked.request)
    if not asked.cluster(Operation.DESCRIBE, is_quiet=True):
        response.groups = [
            one for one in response.groups if asked.group(Operation.DESCRIBE, one.group_id, is_quiet=True)
        ]
    return response


async def _delete_groups(asked: Asked, answer: Answer) -> Any:
    allowed, denied = _parted(asked.request.groups_names, lambda one: asked.group(Operation.DELETE, one))
    response = await answer(replace(asked.request, groups_names=allowed))
    response.results = [*response.results, *(deleted_group_refused(one, _GROUP_DENIED) for one in denied)]
    return response


async def _offset_delete(asked: Asked, answer: Answer) -> Any:
    if not asked.group(Operation.DELETE, asked.request.group_id):
        return asked.refused(_GROUP_DENIED)
    return await _OFFSET_DELETE(asked, answer)


_OFFSET_DELETE: Final = _of_topics(
    Operation.READ, items="topics", name="name", answers="topics", inner=("partitions", "partitions", "partition_index")
)


async def _consumer_heartbeat(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    if not asked.group(Operation.READ, request.group_id):
        return asked.refused(_GROUP_DENIED)
    for name in dict.fromkeys(request.subscribed_topic_names or ()):
        if not asked.topic(Operation.DESCRIBE, name):
            return asked.refused(_TOPIC_DENIED)
    return await answer(request)


async def _streams_heartbeat(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    if not asked.group(Operation.READ, request.group_id):
        return asked.refused(_GROUP_DENIED)
    if request.topology is not None:
        needed: set[str] = set()
        made: set[str] = set()
        for one in request.topology.subtopologies:
            needed.update(one.source_topics)
            made.update(topic.name for topic in (*one.repartition_source_topics, *one.state_changelog_topics))
        for name in sorted(needed | made):
            if not asked.topic(Operation.DESCRIBE, name):
                return asked.refused(_TOPIC_DENIED)
        for name in sorted(made):
            if name not in asked.image.topics and not _may_create(asked, name):
                return asked.refused(_TOPIC_DENIED)
    return await answer(request)


# ---------------------------------------------------------------- transactions


async def _init_producer_id(asked: Asked, answer: Answer) -> Any:
    transactional_id = asked.request.transactional_id
    if transactional_id is not None:
        if not asked.transaction(Operation.WRITE, transactional_id):
            return asked.refused(_ID_DENIED)
    elif not (
        asked.cluster(Operation.IDEMPOTENT_WRITE, is_quiet=True)
        or asked.access.allows_any(asked.context, asked.api_key, Operation.WRITE, ResourceType.TOPIC)
    ):
        return asked.refused(_CLUSTER_DENIED)
    return await answer(asked.request)


async def _add_partitions(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    if asked.context.api_version >= 4:
        if not asked.cluster(Operation.CLUSTER_ACTION):
            return AddPartitionsToTxnResponse(error_code=_CLUSTER_DENIED)
        return await answer(request)
    if not asked.transaction(Operation.WRITE, request.v3_and_below_transactional_id):
        return topics_of_txn_refused(request.v3_and_below_topics, (), _ID_DENIED)
    allowed, denied = _parted(
        request.v3_and_below_topics,
        lambda one: asked.topic(Operation.WRITE, one.name, count=len(one.partitions)),
    )
    if not denied:
        return await answer(request)
    return topics_of_txn_refused(denied, allowed, _TOPIC_DENIED)


async def _add_offsets(asked: Asked, answer: Answer) -> Any:
    if not asked.transaction(Operation.WRITE, asked.request.transactional_id):
        return asked.refused(_ID_DENIED)
    if not asked.group(Operation.READ, asked.request.group_id):
        return asked.refused(_GROUP_DENIED)
    return await answer(asked.request)


async def _end_txn(asked: Asked, answer: Answer) -> Any:
    if not asked.transaction(Operation.WRITE, asked.request.transactional_id):
        return asked.refused(_ID_DENIED)
    return await answer(asked.request)


async def _write_markers(asked: Asked, answer: Answer) -> Any:
    if not (asked.cluster(Operation.ALTER, is_quiet=True) or asked.cluster(Operation.CLUSTER_ACTION)):
        return asked.refused(_CLUSTER_DENIED)
    return await answer(asked.request)


async def _describe_transactions(asked: Asked, answer: Answer) -> Any:
    allowed, denied = _parted(asked.request.transactional_ids, lambda one: asked.transaction(Operation.DESCRIBE, one))
    response = await answer(replace(asked.request, transactional_ids=allowed))
    for state in response.transaction_states:
        state.topics = [one for one in state.topics if asked.topic(Operation.DESCRIBE, one.topic, is_quiet=True)]
    refusals = refused(asked.api_key, replace(asked.request, transactional_ids=denied), _ID_DENIED, "")
    response.transaction_states = [*response.transaction_states, *refusals.transaction_states]
    return response


async def _list_transactions(asked: Asked, answer: Answer) -> Any:
    response = await answer(asked.request)
    response.transaction_states = [
        one
        for one in response.transaction_states
        if asked.transaction(Operation.DESCRIBE, one.transactional_id, is_quiet=True)
    ]
    return response


# ---------------------------------------------------------------- the cluster


async def _describe_cluster(asked: Asked, answer: Answer) -> Any:
    response = await answer(asked.request)
    if asked.request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _cluster_operations(asked)
    return response


async def _describe_log_dirs(asked: Asked, answer: Answer) -> Any:
    if asked.cluster(Operation.DESCRIBE):
        return await answer(asked.request)
    return DescribeLogDirsResponse(error_code=_CLUSTER_DENIED)


async def _alter_acls(asked: Asked, answer: Answer) -> Any:
    if not asked.cluster(Operation.ALTER):
        return acls_refused(asked.api_key, asked.request, _CLUSTER_DENIED, _SAID[_CLUSTER_DENIED])
    return await answer(asked.request)


_DESCRIBE_CLUSTER: Final = _of_cluster(Operation.DESCRIBE)
_ALTER_CLUSTER: Final = _of_cluster(Operation.ALTER)
_READ_GROUP: Final = _of_group(Operation.READ)
_TOPIC_PARTITIONS: Final = ("partitions", "partitions", "partition_index")

RULES: Final[dict[ApiKey, Rule]] = {
    ApiKey.PRODUCE: _anyone,  # the handler asks for each topic
    ApiKey.FETCH: _anyone,  # likewise
    ApiKey.API_VERSIONS: _anyone,
    ApiKey.SASL_HANDSHAKE: _anyone,
    ApiKey.SASL_AUTHENTICATE: _anyone,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _anyone,
    ApiKey.PUSH_TELEMETRY: _anyone,
    ApiKey.LIST_OFFSETS: _of_topics(
        Operation.DESCRIBE, items="topics", name="name", answers="topics", inner=_TOPIC_PARTITIONS
    ),
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _READ_GROUP,
    ApiKey.HEARTBEAT: _READ_GROUP,
    ApiKey.LEAVE_GROUP: _READ_GROUP,
    ApiKey.SYNC_GROUP: _READ_GROUP,
    ApiKey.DESCRIBE_GROUPS: _describe_each("groups", is_described_by_topics=False),
    ApiKey.LIST_GROUPS: _list_groups,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _of_topics(
        Operation.DELETE, items="topics", name="name", answers="topics", inner=_TOPIC_PARTITIONS
    ),
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _leader_epochs,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets,
    ApiKey.END_TXN: _end_txn,
    ApiKey.WRITE_TXN_MARKERS: _write_markers,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: _DESCRIBE_CLUSTER,
    ApiKey.CREATE_ACLS: _alter_acls,
    ApiKey.DELETE_ACLS: _alter_acls,
    ApiKey.DESCRIBE_CONFIGS: _of_configs(Operation.DESCRIBE_CONFIGS, "results"),
    ApiKey.ALTER_CONFIGS: _of_configs(Operation.ALTER_CONFIGS, "responses"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _of_configs(Operation.ALTER_CONFIGS, "responses"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _ALTER_CLUSTER,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.ELECT_LEADERS: _ALTER_CLUSTER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTER_CLUSTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE_CLUSTER,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _of_cluster(Operation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: _of_cluster(Operation.ALTER_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBE_CLUSTER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _ALTER_CLUSTER,
    ApiKey.CREATE_DELEGATION_TOKEN: _anyone,  # the handler asks for the right over another owner
    ApiKey.RENEW_DELEGATION_TOKEN: _anyone,  # owners and renewers alone
    ApiKey.EXPIRE_DELEGATION_TOKEN: _anyone,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _anyone,  # the handler leaves out what may not be seen
    ApiKey.DESCRIBE_QUORUM: _DESCRIBE_CLUSTER,
    ApiKey.UPDATE_FEATURES: _ALTER_CLUSTER,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: _of_topics(
        Operation.READ,
        items="topics",
        name="name",
        answers="topics",
        inner=("partition_indexes", "partitions", "partition_index"),
    ),
    ApiKey.UNREGISTER_BROKER: _ALTER_CLUSTER,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.LIST_TRANSACTIONS: _list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _consumer_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _describe_each("group_ids", is_described_by_topics=True),
    ApiKey.LIST_CONFIG_RESOURCES: _of_cluster(Operation.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
    ApiKey.ADD_RAFT_VOTER: _ALTER_CLUSTER,
    ApiKey.REMOVE_RAFT_VOTER: _ALTER_CLUSTER,
    ApiKey.STREAMS_GROUP_HEARTBEAT: _streams_heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: _describe_each("group_ids", is_described_by_topics=True),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _READ_GROUP,
    ApiKey.UNREGISTER_CONTROLLER: _ALTER_CLUSTER,
}
"""One for each API that is served to clients."""


async def authorized(
    api_key: ApiKey, request: Any, context: RequestContext, access: Access, image: MetadataImage, answer: Answer
) -> Any:
    """The handler's answer to what the client may do, and refusals of the rest. Raises what the handler raises."""
    return await RULES[api_key](Asked(api_key, request, context, access, image), answer)
