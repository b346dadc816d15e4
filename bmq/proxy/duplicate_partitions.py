"""Removes repeated partitions from a Produce request, as Kafka does. Pure."""

from __future__ import annotations

from uuid import UUID

from bmq.protocol.hot_produce import ProducedData, ProducedTopic


def without_duplicates(topics: list[ProducedTopic]) -> list[ProducedTopic]:
    """The request's topics with the last batch of each partition only, and with topics of the same name joined.

    The usual request, which repeats nothing, is returned unchanged. No known client sends another one.
    """
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        return topics
    kept: dict[tuple[str | None, UUID | None], dict[int, ProducedData]] = {}
    count = 0
    for name, topic_id, partitions in topics:
        of_topic = kept.setdefault((name, topic_id), {})
        for data in partitions:
            of_topic[data.partition] = data
            count += 1
    if len(kept) == len(topics) and sum(map(len, kept.values())) == count:
        return topics
    return [ProducedTopic(name, topic_id, list(of_topic.values())) for (name, topic_id), of_topic in kept.items()]
