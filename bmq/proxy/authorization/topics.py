"""Rules about topics. An answer about a topic that the client may not describe does not show whether the topic exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from bmq.metadata.view_configs import VIEW_OF
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_topic_partitions_request import TopicRequest
from bmq.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from bmq.protocol.messages.metadata_request import MetadataRequestTopic
from bmq.protocol.refusals import refused
from bmq.proxy.authorization.answers import (
    described_topic,
    metadata_by_id_refused,
    metadata_topic,
    partitions_with_code,
)
from bmq.proxy.authorization.asked import (
    SAID,
    TOPIC_DENIED,
    Answer,
    Asked,
    Rule,
    cluster_operations,
    may_create,
    parted,
)
from bmq.security.acls import Operation, ResourceType


def of_topics(operation: Operation, *, items: str, name: str, answers: str, inner: tuple[str, str, str]) -> Rule:
    """The rule that demands this operation on each topic of a request, and refuses each partition of the others.

    `items`, `answers`: the arrays of topics in the request and in the response. `name`: the field with a topic's name in both.
    `inner`: the array of partitions in the request, that in the response, and the field of a partition's number in the response.
    """

    async def rule(asked: Asked, answer: Answer) -> Any:
        asked_topics = getattr(asked.request, items)
        allowed, denied = parted(
            asked_topics,
            lambda one: asked.topic(operation, getattr(one, name), count=len(getattr(one, inner[0]) or ())),
        )
        response = await answer(replace(asked.request, **{items: allowed}) if denied else asked.request)
        if denied and not getattr(response, "error_code", ErrorCode.NONE):
            refusals = [
                partitions_with_code(
                    asked.api_key, getattr(one, name), _numbers(one, inner[0]), TOPIC_DENIED, SAID[TOPIC_DENIED]
                )
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


async def leader_epochs(asked: Asked, answer: Answer) -> Any:
    if asked.cluster(Operation.CLUSTER_ACTION, is_quiet=True):
        return await answer(asked.request)
    return await _LEADER_EPOCHS(asked, answer)


_LEADER_EPOCHS: Final = of_topics(
    Operation.DESCRIBE, items="topics", name="topic", answers="topics", inner=("partitions", "partitions", "partition")
)


_METADATA_IDS_FROM: Final = 12


async def metadata(asked: Asked, answer: Answer) -> Any:
    request, context = asked.request, asked.context
    if context.api_version < _METADATA_IDS_FROM and any(
        one.name is None or one.topic_id for one in request.topics or ()
    ):
        return metadata_by_id_refused(request.topics)
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
        for one in {(one.topic_id, one.name): one for one in request.topics}.values():
            name = asked.name_of(one)
            if name is None or asked.topic(Operation.DESCRIBE, name):
                allowed.append(one)
            else:
                denied.append(one)
        asked_for: list[Any] = []
        for one in allowed:
            is_missing = one.name is not None and one.name not in asked.image.topics
            if is_missing and request.allow_auto_topic_creation and not may_create(asked, one.name):
                denied.append(one)
            else:
                asked_for.append(one)
        request = replace(request, topics=asked_for)
    if request.topics:
        response = await answer(request)
    else:
        # Version 0 reads an empty list as all topics, so ask for one that cannot exist, and leave it out.
        request = replace(request, topics=[MetadataRequestTopic(name="")], allow_auto_topic_creation=False)
        response = await answer(request)
        response.topics = []
    response.topics = [*response.topics, *(metadata_topic(one, TOPIC_DENIED) for one in denied)]
    if asked.request.include_topic_authorized_operations:
        for one in response.topics:
            if one.error_code == ErrorCode.NONE and one.name is not None:
                one.topic_authorized_operations = asked.access.operations(context, ResourceType.TOPIC, one.name)
    if asked.request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(asked)
    return response


async def describe_topic_partitions(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    denied: list[Any] = []
    if not request.topics:
        seen = [name for name in asked.image.topics if asked.topic(Operation.DESCRIBE, name, is_quiet=True)]
        if not seen:
            return DescribeTopicPartitionsResponse()
        request = replace(request, topics=[TopicRequest(name=name) for name in seen])
    else:
        allowed, denied = parted(request.topics, lambda one: asked.topic(Operation.DESCRIBE, one.name))
        if not allowed:
            return DescribeTopicPartitionsResponse(topics=[described_topic(one.name, TOPIC_DENIED) for one in denied])
        request = replace(request, topics=allowed)
    response = await answer(request)
    for one in response.topics:
        one.topic_authorized_operations = asked.access.operations(asked.context, ResourceType.TOPIC, one.name)
    response.topics = [*response.topics, *(described_topic(one.name, TOPIC_DENIED) for one in denied)]
    return response


async def create_topics(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    denied: list[Any] = []
    if not asked.cluster(Operation.CREATE, is_quiet=True):
        times = Counter(one.name for one in request.topics)
        allowed, denied = parted(
            request.topics,
            # A name that is given twice is refused, whatever the client's rights are.
            lambda one: times[one.name] > 1 or asked.topic(Operation.CREATE, one.name),
        )
        request = replace(request, topics=allowed)
    # A view shows another topic's records, so making it demands the right to read these.
    allowed, unread = parted(request.topics, lambda one: _may_read_base(asked, one))
    if unread:
        request, denied = replace(request, topics=allowed), [*denied, *unread]
    response = await answer(request)
    for one in response.topics:
        if one.error_code == ErrorCode.NONE and not asked.topic(Operation.DESCRIBE_CONFIGS, one.name, is_quiet=True):
            one.topic_config_error_code = TOPIC_DENIED
            one.num_partitions = one.replication_factor = -1
            one.configs = ()
    refusals = refused(asked.api_key, replace(request, topics=denied), TOPIC_DENIED, SAID[TOPIC_DENIED])
    response.topics = [*response.topics, *refusals.topics]
    return response


def _may_read_base(asked: Asked, topic: Any) -> bool:
    bases = [config.value for config in topic.configs if config.name == VIEW_OF and config.value]
    return all(asked.topic(Operation.READ, base.strip()) for base in bases)


async def delete_topics(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    if asked.cluster(Operation.DELETE, is_quiet=True):
        return await answer(request)
    times = Counter([*request.topic_names, *(one.name or one.topic_id for one in request.topics)])

    def is_answered(name: str) -> bool:
        """Whether the handler answers for the name: it is given twice, or there is no such topic."""
        is_missing = name not in asked.image.topics and asked.topic(Operation.DESCRIBE, name, is_quiet=True)
        return times[name] > 1 or is_missing or asked.topic(Operation.DELETE, name)

    names, denied_names = parted(request.topic_names, is_answered)
    topics: list[Any] = []
    denied: list[Any] = []
    for one in request.topics:
        name = asked.name_of(one)
        if name is None or times[one.topic_id] > 1 or is_answered(name):
            topics.append(one)
        elif one.name is None and not asked.topic(Operation.DESCRIBE, name, is_quiet=True):
            denied.append(one)
        else:
            denied.append(replace(one, name=name))
    response = await answer(replace(request, topic_names=names, topics=topics))
    rest = replace(request, topic_names=denied_names, topics=denied)
    refusals = refused(asked.api_key, rest, TOPIC_DENIED, SAID[TOPIC_DENIED])
    response.responses = [*response.responses, *refusals.responses]
    return response


async def create_partitions(asked: Asked, answer: Answer) -> Any:
    allowed, denied = parted(asked.request.topics, lambda one: asked.topic(Operation.ALTER, one.name))
    response = await answer(replace(asked.request, topics=allowed))
    refusals = refused(asked.api_key, replace(asked.request, topics=denied), TOPIC_DENIED, SAID[TOPIC_DENIED])
    response.results = [*response.results, *refusals.results]
    return response
