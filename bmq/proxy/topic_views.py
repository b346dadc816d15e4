"""How topics look in Metadata and DescribeTopicPartitions: shared by their handlers."""

from __future__ import annotations

from bmq.controller.image import MetadataImage, PartitionImage
from bmq.controller.topic_names import validate_name
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.proxy.services import Services


def leader_error(partition: PartitionImage, image: MetadataImage) -> ErrorCode:
    """LEADER_NOT_AVAILABLE while a partition has no live leader."""
    return ErrorCode.NONE if partition.leader in image.nodes else ErrorCode.LEADER_NOT_AVAILABLE


def offline_replicas(partition: PartitionImage, image: MetadataImage) -> tuple[int, ...]:
    """Replicas whose node is not there."""
    return tuple(replica for replica in partition.replicas if replica not in image.nodes)


async def created_topic_error(name: str, services: Services) -> ErrorCode:
    """Create a missing topic; the code for the answer. NONE: it is in the image now."""
    try:
        await services.controller.auto_create_topic(name)
    except BmqError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            return error.code
    return ErrorCode.NONE


def is_valid_name(name: str) -> bool:
    """Whether a topic could have this name."""
    try:
        validate_name(name)
    except BmqError:
        return False
    return True
