"""Retry topics of classic consumers: their names, and the headers of their records. Pure.

`<topic>.retry.<group>` is the retry topic of a consumer group for the records of a topic. The last `.retry.` of a name counts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

INFIX: Final = ".retry."
LEVELS_CONFIG: Final = "bmq.retry.levels"
ATTEMPT_HEADER: Final = "bmq-attempt"
"""How often the record was produced to the retry topic, in ASCII digits; the server counts."""
ORIGINAL_TOPIC_HEADER: Final = "bmq-original-topic"
SPRING_ORIGINAL_TOPIC_HEADER: Final = "kafka_original-topic"
"""spring-kafka's KafkaHeaders.ORIGINAL_TOPIC."""
LETTERS_PREFIX: Final = "dlq."


class RetryTopic(NamedTuple):
    """`source`: the topic whose records are tried again; `group_id`: the group that tries them."""

    source: str
    group_id: str

    def letters_topic(self, prefix: str) -> str:
        """The topic of the group's dead letters. `prefix`: how names of such topics begin; "": any name may."""
        return letters_topic_of(self.group_id, prefix)


def letters_topic_of(group_id: str, prefix: str) -> str:
    """As RetryTopic.letters_topic."""
    return (prefix or LETTERS_PREFIX) + group_id


def retry_topic_of(name: str) -> RetryTopic | None:
    """None: no retry topic has this name."""
    source, _, group_id = name.rpartition(INFIX)
    return RetryTopic(source, group_id) if source and group_id else None
