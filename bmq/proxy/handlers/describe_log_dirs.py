"""DescribeLogDirs: what a node keeps on its disks, which is nothing (KIP-113, KIP-827).

kafka-reassign-partitions asks for it before it moves anything. A directory without topics makes it write "any" into the
plans it prints, so that those can be executed later; clients take an answer without any directory for a lack of rights.
"""

from __future__ import annotations

from typing import Final

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from bmq.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse, DescribeLogDirsResult
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services

LOG_DIRECTORY: Final = "shared-store"


@handles(ApiKey.DESCRIBE_LOG_DIRS)
async def describe_log_dirs(
    request: DescribeLogDirsRequest, context: RequestContext, services: Services
) -> DescribeLogDirsResponse:
    """DescribeLogDirs 1-5. Where the segments of a partition lie is told by REST: they belong to no node."""
    return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir=LOG_DIRECTORY)])
