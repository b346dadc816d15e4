"""Checks whether a topic may take a share group's dead letters (KIP-1191). Pure.

The server writes dead letters with its own rights, so an application could write to any topic by rejecting records. So a topic
has to be enabled for them, and is checked at each write.
"""

from __future__ import annotations

from bmq.metadata.dead_letter_configs import AUTO_CREATE, INTERNAL_PREFIX
from bmq.metadata.image import INTERNAL_TOPICS, MetadataImage, TopicImage
from bmq.protocol.dead_letters import TOPIC_CONFIG
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError


def check_name(name: str, source: str, prefix: str) -> None:
    """Check the name of a topic for dead letters of the topic `source`. Raises KafkaError INVALID_TOPIC_EXCEPTION."""
    why = None
    if name in INTERNAL_TOPICS or name.startswith(INTERNAL_PREFIX):
        why = f"topic {name} is internal, and takes no dead letters"
    elif name == source:
        why = f"topic {name} has the records themselves, and takes no dead letters of them"
    elif not name.startswith(prefix):
        why = f"the name of topic {name} does not begin with {prefix}, as those of dead letters have to"
    if why is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def target_of(image: MetadataImage, name: str, *, creates: bool) -> TopicImage | None:
    """The topic of this name; None if it has to be created first. Raises KafkaError if it may not take dead letters."""
    topic = image.topics.get(name)
    if topic is None:
        if creates:
            return None
        why = f"topic {name} does not exist, and {AUTO_CREATE} is false"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    if topic.is_internal:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name} is internal, and takes no dead letters")
    if topic.configs.get(TOPIC_CONFIG, "").strip().lower() != "true":
        why = f"topic {name} takes no dead letters: its {TOPIC_CONFIG} is not true"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, why)
    return topic
