"""The leaders that share consumers are sent in Metadata: the one that they know, as long as its proxy lives.

Java's share consumers up to 4.3 drop acknowledgements of records that came from a node which is no longer the leader by their
metadata, although any proxy would take them. So a connection with a share session is sent the earliest leader that it may know,
with the leader epoch of that time. A client that knows a later leader ignores an older epoch, so each client keeps the leader it
has.

A client must not keep a leader whose proxy has ended. So when the proxy of a leader has ended, or is about to, this leader and
all before it are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import NO_LEADER, ROLE_PROXY, MetadataImage, PartitionImage, TopicImage
from bmq.proxy.topic_views import client_leader

TOPICS_MAX: Final = 10_000
"""Most topics that are watched. For other topics clients are sent the present leaders."""
PARTITIONS_MAX: Final = 200_000
"""Most partitions of all watched topics."""
LEADERS_MAX: Final = 8
"""Most leaders of a partition that are remembered; the earliest is forgotten first."""


class ToldLeader(NamedTuple):
    """A leader as sent to clients: the node's id and incarnation (Node.epoch), and the partition's leader epoch."""

    node_id: int
    node_epoch: int
    leader_epoch: int


class FormerLeaders:
    """The leaders of the topics that this proxy's share sessions read.

    `image()`: returns the node's metadata image. Call `changed` after each new image.
    """

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
        """Remember these topics' leaders from now on."""
        image = self._image()
        for topic_id in topic_ids:
            topic = image.topics_by_id.get(topic_id)
            if topic is None or topic_id in self._topics or len(self._topics) >= self._topics_max:
                continue
            if self._partition_count + len(topic.partitions) > self._partitions_max:
                continue
            self._topics[topic_id] = []
            self._note_leaders(image, topic)

    def forget(self) -> None:
        """Forget all leaders: there is no share session any more."""
        self._topics.clear()
        self._partition_count = 0

    def changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Follow a new image, in which leaders may have moved, and nodes may have come or gone."""
        for topic_id, leaders in tuple(self._topics.items()):
            topic = new.topics_by_id.get(topic_id)
            if topic is None:
                del self._topics[topic_id]
                self._partition_count -= len(leaders)
            elif topic is not old.topics_by_id.get(topic_id) or new.nodes is not old.nodes:
                self._note_leaders(new, topic)

    def leader(self, image: MetadataImage, key: TopicPartition, partition: PartitionImage) -> tuple[int, int]:
        """(leader, leader epoch) to send to the client. `image`: has the nodes as the client's listener shows them."""
        for known in self._of(key):
            if _lives(image, known):
                return known.node_id, known.leader_epoch
        return client_leader(image, key, partition), partition.leader_epoch

    def _of(self, key: TopicPartition) -> Sequence[ToldLeader]:
        """The former leaders of a partition, earliest first, all of which live; () if only the present one is known."""
        leaders = self._topics.get(key.topic_id, ())
        known: Sequence[ToldLeader] = leaders[key.partition] if key.partition < len(leaders) else ()
        return known if len(known) > 1 else ()

    def _note_leaders(self, image: MetadataImage, topic: TopicImage) -> None:
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
    """Whether the leader's node is still the same incarnation, and not about to end."""
    node = image.nodes.get(known.node_id)
    if node is None or node.epoch != known.node_epoch:
        return False
    return ROLE_PROXY in node.roles and not node.is_draining
