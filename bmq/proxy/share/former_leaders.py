"""The leaders that share consumers are told: the one they know, as long as its proxy lives.

Java's share consumers up to 4.3 drop the acknowledgements of records that came from a node which is no longer the leader by
their metadata, although any proxy takes them. So a connection with a share session is told the earliest leader that it may
know, with the leader epoch of that time. A client that knows a later leader ignores an older epoch, so each keeps its own.

A client must not be left with a leader that is gone. So when the proxy of one of the leaders has ended, or is about to,
that one and all before it are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import NO_LEADER, ROLE_PROXY, MetadataImage, PartitionImage, TopicImage
from bmq.proxy.topic_views import client_leader

TOPICS_MAX: Final = 10_000
"""Topics that are watched; clients of further ones are told the present leaders."""
PARTITIONS_MAX: Final = 200_000
"""Of all of them."""
LEADERS_MAX: Final = 8
"""Leaders of a partition; the earliest is forgotten first."""


class ToldLeader(NamedTuple):
    """A leader as clients see it: a node's id and incarnation (Node.epoch), and the partition's leader epoch."""

    node_id: int
    node_epoch: int
    leader_epoch: int


class FormerLeaders:
    """Of the topics that share sessions of this proxy read. `image()`: the node's; call `changed` after each new one."""

    def __init__(
        self,
        image: Callable[[], MetadataImage] = MetadataImage,
        *,
        topics_max: int = TOPICS_MAX,
        partitions_max: int = PARTITIONS_MAX,
    ) -> None:
        self._image = image
        self._topics_max = topics_max
        self._partitions_max = partitions_max
        self._partition_count = 0
        self._topics: dict[UUID, list[list[ToldLeader]]] = {}

    def __len__(self) -> int:
        return len(self._topics)

    def watch(self, topic_ids: Iterable[UUID]) -> None:
        """From now on remember these topics' leaders."""
        image = self._image()
        for topic_id in topic_ids:
            topic = image.topics_by_id.get(topic_id)
            if topic is None or topic_id in self._topics or len(self._topics) >= self._topics_max:
                continue
            if self._partition_count + len(topic.partitions) > self._partitions_max:
                continue
            self._topics[topic_id] = []
            self._look(image, topic)

    def forget(self) -> None:
        """There is no share session any more."""
        self._topics.clear()
        self._partition_count = 0

    def changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Leaders may have moved, and nodes come or gone."""
        for topic_id, leaders in tuple(self._topics.items()):
            topic = new.topics_by_id.get(topic_id)
            if topic is None:
                del self._topics[topic_id]
                self._partition_count -= len(leaders)
            elif topic is not old.topics_by_id.get(topic_id) or new.nodes is not old.nodes:
                self._look(new, topic)

    def leader(self, image: MetadataImage, key: TopicPartition, partition: PartitionImage) -> tuple[int, int]:
        """The leader to tell, and its leader epoch. `image`: with the nodes that the client's listener shows."""
        for known in self._of(key):
            if _lives(image, known):
                return known.node_id, known.leader_epoch
        return client_leader(image, key, partition), partition.leader_epoch

    def _of(self, key: TopicPartition) -> Sequence[ToldLeader]:
        """Leaders that all live and are followed by the present one; none: the present one alone is known."""
        leaders = self._topics.get(key.topic_id, ())
        known: Sequence[ToldLeader] = leaders[key.partition] if key.partition < len(leaders) else ()
        return known if len(known) > 1 else ()

    def _look(self, image: MetadataImage, topic: TopicImage) -> None:
        leaders = self._topics[topic.topic_id]
        for _ in topic.partitions[len(leaders) :]:
            if self._partition_count >= self._partitions_max:
                break
            leaders.append([])
            self._partition_count += 1
        for known, partition in zip(leaders, topic.partitions, strict=False):
            present = _present(image, topic.topic_id, partition)
            is_same = known and present is not None and known[-1][:2] == present[:2]
            if present is not None and not is_same:
                known.append(present)
            gone = [place for place, one in enumerate(known) if not _lives(image, one)]
            del known[: gone[-1] + 1 if gone else max(0, len(known) - LEADERS_MAX)]


def _present(image: MetadataImage, topic_id: UUID, partition: PartitionImage) -> ToldLeader | None:
    node = image.nodes.get(client_leader(image, TopicPartition(topic_id, partition.partition), partition))
    if node is None or partition.leader == NO_LEADER:
        return None
    return ToldLeader(node.node_id, node.epoch, partition.leader_epoch)


def _lives(image: MetadataImage, known: ToldLeader) -> bool:
    """Whether clients reach the same incarnation, and it is not about to end."""
    node = image.nodes.get(known.node_id)
    if node is None or node.epoch != known.node_epoch:
        return False
    return ROLE_PROXY in node.roles and not node.is_draining
