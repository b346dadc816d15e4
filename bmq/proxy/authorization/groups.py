"""Rules about groups and their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.offset_fetch_response import OffsetFetchResponse
from bmq.proxy.authorization.answers import (
    commit_refused,
    coordinator_refused,
    deleted_group_refused,
    described_group_refused,
    fetched_topic_refused,
    group_refused,
)
from bmq.proxy.authorization.asked import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    ID_DENIED,
    SAID,
    TOPIC_DENIED,
    Answer,
    Asked,
    Rule,
    may_create,
    parted,
)
from bmq.proxy.authorization.topics import of_topics
from bmq.security.acls import Operation, ResourceType

_FETCH_HAS_CODE_FROM: Final = 2
"""The first version of OffsetFetch whose answer has an error code for the whole group."""


async def offset_commit(asked: Asked, answer: Answer) -> Any:
    if not asked.group(Operation.READ, asked.request.group_id):
        return commit_refused(asked.api_key, asked.request.topics, GROUP_DENIED)
    return await _commit_topics(asked, answer)


async def txn_offset_commit(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    if not asked.transaction(Operation.WRITE, request.transactional_id):
        return commit_refused(asked.api_key, request.topics, ID_DENIED)
    if not asked.group(Operation.READ, request.group_id):
        return commit_refused(asked.api_key, request.topics, GROUP_DENIED)
    return await _commit_topics(asked, answer)


async def _commit_topics(asked: Asked, answer: Answer) -> Any:
    def is_allowed(one: Any) -> bool:
        name = asked.name_of(one)
        return name is None or asked.topic(Operation.READ, name, count=len(one.partitions))

    allowed, denied = parted(asked.request.topics, is_allowed)
    if not denied:
        return await answer(asked.request)
    if not allowed:
        return commit_refused(asked.api_key, denied, TOPIC_DENIED)
    response = await answer(replace(asked.request, topics=allowed))
    response.topics = [*response.topics, *commit_refused(asked.api_key, denied, TOPIC_DENIED).topics]
    return response


async def offset_fetch(asked: Asked, answer: Answer) -> Any:
    request, version = asked.request, asked.context.api_version
    if version < 8:
        if not asked.group(Operation.DESCRIBE, request.group_id):
            if version >= _FETCH_HAS_CODE_FROM:
                return asked.refused(GROUP_DENIED)
            refusals = [fetched_topic_refused(one, GROUP_DENIED, is_grouped=False) for one in request.topics or ()]
            return OffsetFetchResponse(topics=refusals)
        allowed, denied = _described(asked, request.topics)
        response = await answer(request if request.topics is None else replace(request, topics=allowed))
        if request.topics is None:
            response.topics = [one for one in response.topics if _is_described(asked, one)]
        else:
            response.topics = [
                *(response.topics if allowed else ()),
                *(fetched_topic_refused(one, TOPIC_DENIED, is_grouped=False) for one in denied),
            ]
        return response
    groups, refusals, missing = [], [], {}
    for group in request.groups:
        if not asked.group(Operation.DESCRIBE, group.group_id):
            refusals.append(group_refused(group.group_id, GROUP_DENIED))
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
            more = (fetched_topic_refused(one, TOPIC_DENIED, is_grouped=True) for one in denied)
            group.topics = [*group.topics, *more]
    response.groups = [*response.groups, *refusals]
    return response


def _described(asked: Asked, topics: Sequence[Any] | None) -> tuple[list[Any], list[Any]]:
    def is_allowed(one: Any) -> bool:
        name = asked.name_of(one)
        return name is None or asked.topic(Operation.DESCRIBE, name)

    return parted(topics or (), is_allowed)


def _is_described(asked: Asked, one: Any) -> bool:
    name = asked.name_of(one)
    return name is not None and asked.topic(Operation.DESCRIBE, name, is_quiet=True)


async def find_coordinator(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    code = GROUP_DENIED if request.key_type == 0 else ID_DENIED if request.key_type == 1 else CLUSTER_DENIED

    def is_allowed(key: str) -> bool:
        if request.key_type == 0:
            return asked.group(Operation.DESCRIBE, key)
        if request.key_type == 1:
            return asked.transaction(Operation.DESCRIBE, key)
        return asked.cluster(Operation.CLUSTER_ACTION)

    if asked.context.api_version < 4:
        return await answer(request) if is_allowed(request.key) else asked.refused(code)
    allowed, denied = parted(request.coordinator_keys, is_allowed)
    response = await answer(replace(request, coordinator_keys=allowed))
    refusals = (coordinator_refused(key, code, SAID[code]) for key in denied)
    response.coordinators = [*response.coordinators, *refusals]
    return response


def describe_each(names: str, *, is_described_by_topics: bool) -> Rule:
    """The rule for describing groups: refuses groups without the right, and those with a topic that may not be described."""

    async def rule(asked: Asked, answer: Answer) -> Any:
        allowed, denied = parted(
            getattr(asked.request, names), lambda group_id: asked.group(Operation.DESCRIBE, group_id)
        )
        response = await answer(replace(asked.request, **{names: allowed}))
        groups = []
        for group in response.groups:
            if is_described_by_topics and not all(
                asked.topic(Operation.DESCRIBE, name) for name in sorted(topics_of_group(group))
            ):
                refusal = described_group_refused(asked.api_key, group.group_id, TOPIC_DENIED, _HIDDEN)
                groups.append(refusal)
                continue
            if asked.request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = asked.access.operations(asked.context, ResourceType.GROUP, group.group_id)
            groups.append(group)
        refusals = (described_group_refused(asked.api_key, one, GROUP_DENIED, SAID[GROUP_DENIED]) for one in denied)
        response.groups = [*groups, *refusals]
        return response

    return rule


_HIDDEN: Final = "The group has described topic(s) that the client is not authorized to describe."


def topics_of_group(group: Any) -> set[str]:
    """The topics in the description of a group of a newer protocol."""
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


async def list_groups(asked: Asked, answer: Answer) -> Any:
    response = await answer(asked.request)
    if not asked.cluster(Operation.DESCRIBE, is_quiet=True):
        response.groups = [
            one for one in response.groups if asked.group(Operation.DESCRIBE, one.group_id, is_quiet=True)
        ]
    return response


async def delete_groups(asked: Asked, answer: Answer) -> Any:
    allowed, denied = parted(asked.request.groups_names, lambda one: asked.group(Operation.DELETE, one))
    response = await answer(replace(asked.request, groups_names=allowed))
    response.results = [*response.results, *(deleted_group_refused(one, GROUP_DENIED) for one in denied)]
    return response


async def offset_delete(asked: Asked, answer: Answer) -> Any:
    if not asked.group(Operation.DELETE, asked.request.group_id):
        return asked.refused(GROUP_DENIED)
    return await _OFFSET_DELETE(asked, answer)


_OFFSET_DELETE: Final = of_topics(
    Operation.READ, items="topics", name="name", answers="topics", inner=("partitions", "partitions", "partition_index")
)


async def consumer_heartbeat(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    if not asked.group(Operation.READ, request.group_id):
        return asked.refused(GROUP_DENIED)
    for name in dict.fromkeys(request.subscribed_topic_names or ()):
        if not asked.topic(Operation.DESCRIBE, name):
            return asked.refused(TOPIC_DENIED)
    return await answer(request)


async def streams_heartbeat(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    if not asked.group(Operation.READ, request.group_id):
        return asked.refused(GROUP_DENIED)
    if request.topology is not None:
        needed: set[str] = set()
        made: set[str] = set()
        for one in request.topology.subtopologies:
            needed.update(one.source_topics)
            made.update(topic.name for topic in (*one.repartition_source_topics, *one.state_changelog_topics))
        for name in sorted(needed | made):
            if not asked.topic(Operation.DESCRIBE, name):
                return asked.refused(TOPIC_DENIED)
        for name in sorted(made):
            if name not in asked.image.topics and not may_create(asked, name):
                return asked.refused(TOPIC_DENIED)
    return await answer(request)
