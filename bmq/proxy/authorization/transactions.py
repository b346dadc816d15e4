"""Rules about transactions and producer ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bmq.metadata.image import INTERNAL_TOPICS
from bmq.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from bmq.protocol.refusals import partitions_refused, refused
from bmq.proxy.authorization.answers import (
    topics_of_txn_refused,
)
from bmq.proxy.authorization.asked import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    ID_DENIED,
    Answer,
    Asked,
    parted,
)
from bmq.security.acls import Operation, ResourceType


async def init_producer_id(asked: Asked, answer: Answer) -> Any:
    transactional_id = asked.request.transactional_id
    if transactional_id is not None:
        if not asked.transaction(Operation.WRITE, transactional_id):
            return asked.refused(ID_DENIED)
    elif not (
        asked.cluster(Operation.IDEMPOTENT_WRITE, is_quiet=True)
        or asked.access.allows_any(asked.context, asked.api_key, Operation.WRITE, ResourceType.TOPIC)
    ):
        return asked.refused(CLUSTER_DENIED)
    return await answer(asked.request)


async def add_partitions(asked: Asked, answer: Answer) -> Any:
    request = asked.request
    if asked.context.api_version >= 4:
        if not asked.cluster(Operation.CLUSTER_ACTION):
            return AddPartitionsToTxnResponse(error_code=CLUSTER_DENIED)
        return await answer(request)
    if not asked.transaction(Operation.WRITE, request.v3_and_below_transactional_id):
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=partitions_refused(request.v3_and_below_topics, ID_DENIED)
        )
    allowed, denied = parted(
        request.v3_and_below_topics,
        lambda one: (
            one.name not in INTERNAL_TOPICS and asked.topic(Operation.WRITE, one.name, count=len(one.partitions))
        ),
    )
    if not denied:
        return await answer(request)
    return topics_of_txn_refused(denied, allowed, asked.image)


async def add_offsets(asked: Asked, answer: Answer) -> Any:
    if not asked.transaction(Operation.WRITE, asked.request.transactional_id):
        return asked.refused(ID_DENIED)
    if not asked.group(Operation.READ, asked.request.group_id):
        return asked.refused(GROUP_DENIED)
    return await answer(asked.request)


async def end_txn(asked: Asked, answer: Answer) -> Any:
    if not asked.transaction(Operation.WRITE, asked.request.transactional_id):
        return asked.refused(ID_DENIED)
    return await answer(asked.request)


async def write_markers(asked: Asked, answer: Answer) -> Any:
    if not (asked.cluster(Operation.ALTER, is_quiet=True) or asked.cluster(Operation.CLUSTER_ACTION)):
        return asked.refused(CLUSTER_DENIED)
    return await answer(asked.request)


async def describe_transactions(asked: Asked, answer: Answer) -> Any:
    allowed, denied = parted(asked.request.transactional_ids, lambda one: asked.transaction(Operation.DESCRIBE, one))
    response = await answer(replace(asked.request, transactional_ids=allowed))
    for state in response.transaction_states:
        state.topics = [one for one in state.topics if asked.topic(Operation.DESCRIBE, one.topic, is_quiet=True)]
    refusals = refused(asked.api_key, replace(asked.request, transactional_ids=denied), ID_DENIED, "")
    response.transaction_states = [*response.transaction_states, *refusals.transaction_states]
    return response


async def list_transactions(asked: Asked, answer: Answer) -> Any:
    response = await answer(asked.request)
    response.transaction_states = [
        one
        for one in response.transaction_states
        if asked.transaction(Operation.DESCRIBE, one.transactional_id, is_quiet=True)
    ]
    return response
