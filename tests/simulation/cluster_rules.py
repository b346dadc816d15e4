"""What must hold in every process of a cluster at any time, whatever clients see of it."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import OFFSETS_TOPIC_NAME, MetadataImage
from bmq.server.node_roles import NodeRoles
from tests.fakes.store import FakeStore
from tests.simulation.cluster_node import NodeProcess
from tests.simulation.history import Violation
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.namespace_check import check_one_writer_per_epoch
from tests.simulation.outcome import Outcome

_RELEASE_S = 0.3
_FENCED_S = 5.0


class ClusterRules:
    """Remembers who owned what at which epoch, and what the metadata was at which offset."""

    def __init__(
        self, loop: VirtualTimeLoop, store: FakeStore, outcome: Outcome, is_looking_inside: bool = True
    ) -> None:
        self.is_looking_inside = is_looking_inside
        self._loop = loop
        self._store = store
        self._outcome = outcome
        self._owners: dict[tuple[TopicPartition, int], str] = {}
        self._metadata: dict[int, tuple[object, str]] = {}
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._deleted: set[UUID] = set()
        self._is_controlled = False  # a controller is active
        self.violation: Violation | None = None
        """Found where it could not be raised; raised with the next look."""

    # --- metadata: one history for everybody (rule 17)

    def saw_image(self, node: NodeProcess, image: MetadataImage) -> None:
        """A node has this image now."""
        if image.offset < node.metadata_offset:
            self._note(f"the metadata of {node.process.name} went back from {node.metadata_offset} to {image.offset}")
        node.metadata_offset = image.offset
        if node.roles is not None:
            replica = node.roles.replica
            if replica.controller_epoch < node.controller_epoch:
                self._note(
                    f"{node.process.name} listened to controller {replica.controller_epoch} after {node.controller_epoch}"
                )
            node.controller_epoch = replica.controller_epoch
        self.same_for_all(node, image)

    def same_for_all(self, node: NodeProcess, image: MetadataImage) -> None:
        """Whoever knows the metadata up to an offset knows the same, the controller that wrote it included."""
        picture = (
            tuple(sorted(image.nodes.items())),
            tuple(
                (topic.name, topic_id, topic.partitions, tuple(sorted(topic.configs.items())))
                for topic_id, topic in sorted(image.topics_by_id.items())
            ),
            image.deleted_topics,
            image.next_producer_id,
        )
        known, who = self._metadata.setdefault(image.offset, (picture, node.process.name))
        if known != picture:
            self._note(
                f"the metadata at {image.offset} differs between {who} and {node.process.name}: "
                f"{str(known)[:500]} {str(picture)[:500]}"
            )

        self._deleted |= image.deleted_topics
        for topic_id, topic in image.topics_by_id.items():
            for partition in topic.partitions:
                led = TopicPartition(topic_id, partition.partition), partition.leader_epoch
                leader = self._leaders.setdefault(led, partition.leader)
                if leader != partition.leader:
                    self._note(f"both {leader} and {partition.leader} were named owner of {led}")

    @property
    def moves(self) -> int:
        """How often owners followed others."""
        return len(self._leaders) - len({key for key, _ in self._leaders})

    def _note(self, sentence: str) -> None:
        if self.violation is None:
            self.violation = Violation(sentence)

    # --- processes

    def check(self, nodes: Iterable[NodeProcess]) -> None:
        """Raises Violation."""
        for node in nodes:
            roles = node.roles if node.process.is_alive else None
            self._outcome.remote_tails += roles is not None and roles.router.tails.followed_count > 0
        if not self.is_looking_inside:
            return
        check_one_writer_per_epoch(self._store.namespace)
        self._is_controlled = any(
            node.process.is_alive and node.server is not None and node.server.controller is not None for node in nodes
        )
        if self.violation is not None:
            raise self.violation
        for node in nodes:
            if node.process.is_alive and node.roles is not None:
                self._check_owned(node, node.roles)
                self._check_released(node, node.roles)
                self._check_served(node, node.roles)
                _check_shards(node, node.roles)
                _check_memory(node.roles)

    def _check_owned(self, node: NodeProcess, roles: NodeRoles) -> None:
        manager = roles.manager
        for runtime in manager.owned():
            key, epoch = runtime.topic_partition, runtime.leader_epoch
            owner = self._owners.setdefault((key, epoch), node.process.name)
            if owner != node.process.name:
                raise Violation(f"both {owner} and {node.process.name} own {key} at epoch {epoch}")
            floor = manager.high_watermark_floor(key)
            if floor is None:
                raise Violation(f"{node.process.name} goes on owning {key}, which was handed over")
            topic = roles.replica.image.topics_by_id.get(key.topic_id)
            if topic is not None and key.partition < len(topic.partitions):
                named = topic.partitions[key.partition]
                if named.leader_epoch == epoch and floor < named.high_watermark_floor:
                    raise Violation(f"{node.process.name} was not told the floor {named.high_watermark_floor} of {key}")
        for key, high_watermark in manager.high_watermarks().items():
            before = node.high_watermarks.get(key, 0)
            # A node that has not heard of the deletion may start a log anew whose files are gone.
            if high_watermark < before and key.topic_id not in self._deleted:
                raise Violation(f"the high watermark of {key} went back from {before} to {high_watermark}")
            node.high_watermarks[key] = high_watermark

    def _check_served(self, node: NodeProcess, roles: NodeRoles) -> None:
        """Whoever is named owner by the newest metadata there is finds nobody else in its place.

        While no controller is active, because its log is damaged, nobody gives a higher epoch.
        """
        manager, image, newest = roles.manager, roles.replica.image, max(self._metadata, default=0)
        if node.process.is_paused or image.offset < newest or not self._is_controlled:
            node.fenced_since_s.clear()
            return
        now_s = self._loop.time()
        fenced = set(manager.fenced())
        for key in tuple(node.fenced_since_s):
            if key not in fenced:
                del node.fenced_since_s[key]
        for key in fenced:
            topic = image.topics_by_id.get(key.topic_id)
            if topic is None or topic.partitions[key.partition].leader_epoch != manager.leader_epoch(key):
                continue
            if now_s - node.fenced_since_s.setdefault(key, now_s) > _FENCED_S:
                raise Violation(f"{node.process.name} is the owner of {key} and finds another one there")

    def _check_released(self, node: NodeProcess, roles: NodeRoles) -> None:
        """What was asked of an owner is not assigned to it any more, and drained soon (rule 8)."""
        manager = roles.manager
        if node.process.is_paused:
            node.still_owned.clear()
            return
        now_s = self._loop.time()
        for key, epoch in roles.assignments.released.items():
            assigned, runtime = manager.leader_epoch(key), manager.ready(key)
            is_owner = assigned is not None and assigned < epoch
            is_draining = runtime is not None and runtime.leader_epoch < epoch
            if not is_owner and not is_draining:
                node.still_owned.pop(key, None)
                continue
            since_s = now_s - node.still_owned.setdefault(key, now_s)
            if since_s > (_RELEASE_S if is_owner else manager.settings.stop_wait_max_s + _RELEASE_S):
                raise Violation(f"{node.process.name} owns {key}, {since_s} s after it was asked for epoch {epoch}")


def _check_shards(node: NodeProcess, roles: NodeRoles) -> None:
    """A shard lives where its partition is owned, at the same epoch (rule 16)."""
    topic = roles.replica.image.topics.get(OFFSETS_TOPIC_NAME)
    if topic is None:
        return
    for number, shard in roles.groups.directory.ready.items():
        epoch = roles.manager.leader_epoch(TopicPartition(topic.topic_id, number))
        if epoch != shard.state_log.log.leader_epoch:
            raise Violation(
                f"{node.process.name} has the group shard {number} of epoch {shard.state_log.log.leader_epoch}; "
                f"the partition is assigned to it at {epoch}"
            )


def _check_memory(roles: NodeRoles) -> None:
    here, elsewhere = roles.manager, roles.router.context
    caches = [here.tail_cache, elsewhere.tail_cache]
    budgets = [here.budget, elsewhere.budget]
    for cache in caches:
        if cache.bytes_used > cache.bytes_max:
            raise Violation(f"a tail cache holds {cache.bytes_used} bytes of {cache.bytes_max}")
    for budget in budgets:
        if budget.bytes_used > budget.refuse_bytes_max:
            raise Violation(f"{budget.bytes_used} bytes are being appended, {budget.refuse_bytes_max} are allowed")


def check_nothing_is_left(roles: NodeRoles) -> None:
    """Everything was answered, so nothing is on its way any more. Raises Violation."""
    left = {
        "append budget": roles.manager.budget.bytes_used,
        "forwarded": roles.router.context.budget.bytes_used,
        "requests": roles.client_services.stats.in_flight_bytes,
    }
    if any(left.values()):
        raise Violation(f"bytes that nobody gave back: {left}")
