"""Whether a topic may take a share group's dead letters (KIP-1191). Pure.

The server writes them with its own rights, so an application could reach any topic by rejecting records. Hence the topic
has to be switched on, and is looked at for each write.
"""

from __future__ import annotations

from bmq.metadata.dead_letter_configs import AUTO_CREATE, INTERNAL_PREFIX
from bmq.metadata.image import INTERNAL_TOPICS, MetadataImage, TopicImage
from bmq.protocol.dead_letters import TOPIC_CONFIG
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError


def check_name(name: str, source: str, prefix: str) -> None:
    """`source`: the topic that the records are in. Raises KafkaError INVALID_TOPIC_EXCEPTION with a sentence."""
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
    """The topic; None: it has to be created. Raises KafkaError with a sentence."""
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
