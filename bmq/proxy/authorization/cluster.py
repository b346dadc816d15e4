"""Rules about the cluster as a whole."""

from __future__ import annotations

from typing import Any

from bmq.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from bmq.proxy.authorization.answers import (
    acls_refused,
)
from bmq.proxy.authorization.asked import (
    CLUSTER_DENIED,
    SAID,
    Answer,
    Asked,
    cluster_operations,
)
from bmq.security.acls import Operation


async def describe_cluster(asked: Asked, answer: Answer) -> Any:
    response = await answer(asked.request)
    if asked.request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(asked)
    return response


async def describe_log_dirs(asked: Asked, answer: Answer) -> Any:
    if asked.cluster(Operation.DESCRIBE):
        return await answer(asked.request)
    return DescribeLogDirsResponse(error_code=CLUSTER_DENIED)


async def alter_acls(asked: Asked, answer: Answer) -> Any:
    if not asked.cluster(Operation.ALTER):
        return acls_refused(asked.api_key, asked.request, CLUSTER_DENIED, SAID[CLUSTER_DENIED])
    return await answer(asked.request)
