"""Rules about configs: topics and groups are checked by name, all other resources by the right over the cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.refusals import refused
from bmq.proxy.authorization.asked import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    SAID,
    TOPIC_DENIED,
    Answer,
    Asked,
    Rule,
)
from bmq.security.acls import Operation

_BROKER, _BROKER_LOGGER, _TOPIC, _CLIENT_METRICS, _GROUP = 4, 8, 2, 16, 32
"""Types of resources with configs: broker, broker logger, topic, client metrics, group."""


def of_configs(operation: Operation, answers: str) -> Rule:
    """The rule that demands this operation on named topics and groups, and on the cluster for all other resources."""

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
                results += getattr(refused(asked.api_key, rest, codes[id(one)], SAID[codes[id(one)]]), answers)
        setattr(response, answers, results)
        return response

    return rule


def _config_code(asked: Asked, operation: Operation, kind: int, name: str) -> ErrorCode:
    if kind == _TOPIC:
        return ErrorCode.NONE if asked.topic(operation, name) else TOPIC_DENIED
    if kind == _GROUP:
        return ErrorCode.NONE if asked.group(operation, name) else GROUP_DENIED
    if kind in (_BROKER, _BROKER_LOGGER, _CLIENT_METRICS):
        return ErrorCode.NONE if asked.cluster(operation) else CLUSTER_DENIED
    return ErrorCode.NONE  # the handler refuses the type
