"""A Produce request with each partition in it once, as Kafka takes one that names a partition twice. Pure."""

from __future__ import annotations

from uuid import UUID

from bmq.protocol.hot_produce import ProducedData, ProducedTopic


def named_once(topics: list[ProducedTopic]) -> list[ProducedTopic]:
    """Keep the last batch of each partition, and make one topic of several of the same name. No client sends such a request.

    The usual request comes back as it is.
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
