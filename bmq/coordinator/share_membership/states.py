"""The state of share groups' partitions as the group coordinator uses it, and where partitions end. Ports only. Pure."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from bmq.protocol.share_state_messages import (
    ShareActivateRequest,
    ShareActivateResponse,
    ShareDeleteRequest,
    ShareDeleteResponse,
    ShareInitializeRequest,
    ShareInitializeResponse,
    ShareReleaseRequest,
    ShareReleaseResponse,
    ShareSummaryRequest,
    ShareSummaryResponse,
)


class ShareStates(Protocol):
    """The shards that keep the state, in this process or in all of the cluster. Errors are in the parts of answers."""

    async def initialize(self, request: ShareInitializeRequest) -> ShareInitializeResponse: ...
    async def summarize(self, request: ShareSummaryRequest) -> ShareSummaryResponse: ...
    async def activate(self, request: ShareActivateRequest) -> ShareActivateResponse: ...
    async def release(self, request: ShareReleaseRequest) -> ShareReleaseResponse: ...
    async def delete(self, request: ShareDeleteRequest) -> ShareDeleteResponse: ...


class EndOffsets(Protocol):
    """Where partitions end."""

    async def end_offset(self, topic_id: UUID, partition: int) -> int:
        """The high watermark. Raises KafkaError."""
