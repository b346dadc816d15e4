"""The topic that a CreateTopics request asks for when its asker leaves the numbers to the controller."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bmq.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig

_DEFAULT: Final = -1
_NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})


def default_topic(name: str, configs: Mapping[str, str] = _NO_CONFIGS) -> CreatableTopic:
    """With the default number of partitions (`num.partitions`) and of replicas, and these configs."""
    return CreatableTopic(
        name=name,
        num_partitions=_DEFAULT,
        replication_factor=_DEFAULT,
        configs=[CreatableTopicConfig(name=config, value=value) for config, value in configs.items()],
    )
