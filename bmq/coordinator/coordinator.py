"""The group coordinator: message in, message out. Errors are returned in answers, not raised.

A part in api/ finds the group's shard, lets classic/, consumer/, streams/, share/ or offsets/ decide, and answers once the answer's records are durable.
Error codes and the differences between versions are those of Apache Kafka's GroupCoordinatorService and KafkaApis (4.x).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from bmq.coordinator.api.admin_api import GroupAdminApi
from bmq.coordinator.api.classic_api import ClassicApi
from bmq.coordinator.api.consumer_api import ConsumerApi
from bmq.coordinator.api.context import CoordinatorContext, RandomBits
from bmq.coordinator.api.lanes_api import LanesApi
from bmq.coordinator.api.offset_api import OffsetApi
from bmq.coordinator.api.repeated_heartbeats import RepeatedHeartbeats
from bmq.coordinator.api.share_api import ShareApi
from bmq.coordinator.api.share_offsets_api import ShareOffsetsApi
from bmq.coordinator.api.share_states_api import ShareStatesApi
from bmq.coordinator.api.streams_api import StreamsApi
from bmq.coordinator.api.txn_offset_api import TxnOffsetApi
from bmq.coordinator.classic.effects import GroupState
from bmq.coordinator.classic.member_memory import MemberMemory
from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.consumer.consumer_group import ConsumerGroupState
from bmq.coordinator.group_shard import GroupShard, GroupShardContext
from bmq.coordinator.metrics import GroupMetrics
from bmq.coordinator.runtime.directory import ShardDirectory, Shards
from bmq.coordinator.streams.streams_group import StreamsGroupState
from bmq.coordinator.topics import CurrentTopics, MayDescribe, Topics, changes
from bmq.log.clock import Clock
from bmq.log.partition_log import ReplayableLog
from bmq.log.transactions import TransactionVerifier
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.request_context import RequestContext, RequestMethod

_CLOSE_SNAPSHOT_RECORDS_MIN: Final = 1_000


class GroupCoordinator:
    """All groups whose shards this process owns. Create it inside its event loop."""

    def __init__(
        self,
        shards: Shards,
        clock: Clock,
        rng: RandomBits,
        config: CoordinatorConfig,
        image: CurrentTopics,
        *,
        verifier: TransactionVerifier | None = None,
        create_topics: RequestMethod | None = None,
        may_describe: MayDescribe,
    ) -> None:
        """`may_describe`: which topics the regular expression of a member may match."""
        self.metrics = GroupMetrics(self._groups_by_state, self._offset_count, self._groups_by_type)
        self.memory = MemberMemory(config.members_bytes_max)
        self._made: WeakSet[GroupShard] = WeakSet()  # those that are loading, too

        def make(number: int, log: ReplayableLog, on_lost: Callable[[GroupShard], None]) -> GroupShard:
            context = GroupShardContext(
                clock,
                self._context.config,
                self.metrics,
                image,
                self.memory,
                may_describe,
                create_topics,
                self._loaded,
                self.share_states.member_expired,
            )
            shard = GroupShard(number, log, on_lost, context)
            self._made.add(shard)
            return shard

        self.directory = ShardDirectory(GroupShard.kind, shards, make, config)
        self._context = CoordinatorContext(self.directory, clock, rng, image, self.metrics, config)
        self.lanes = LanesApi(self._context)
        self.classic = ClassicApi(self._context)
        self.consumer = ConsumerApi(self._context)
        self.streams = StreamsApi(self._context)
        self.share_states = ShareStatesApi(image)
        self.share = ShareApi(self._context, self.share_states)
        self.share_offsets = ShareOffsetsApi(self._context, self.share_states)
        self.offsets = OffsetApi(self._context)
        self.transactional_offsets = TxnOffsetApi(self._context, verifier)
        self.administration = GroupAdminApi(self._context, self.share_states)
        # Bound here because every commit and heartbeat calls them: a method of the coordinator would be one more call.
        self.commit_at_once: Final = self.offsets.commit_at_once
        self.repeated_heartbeat: Final = RepeatedHeartbeats(self._context).answer
        self.write_marker: Final = self.transactional_offsets.write_marker
        self.use_transactions: Final = self.transactional_offsets.use_transactions
        self._handlers: Final = self._table()

    def _table(self) -> Mapping[ApiKey, RequestMethod]:
        """The method that answers each API."""
        return {
            ApiKey.JOIN_GROUP: self.classic.join_group,
            ApiKey.SYNC_GROUP: self.classic.sync_group,
            ApiKey.HEARTBEAT: self.classic.heartbeat,
            ApiKey.LEAVE_GROUP: self.classic.leave_group,
            ApiKey.LIST_GROUPS: self.administration.list_groups,
            ApiKey.DESCRIBE_GROUPS: self.administration.describe_groups,
            ApiKey.DELETE_GROUPS: self.administration.delete_groups,
            ApiKey.OFFSET_COMMIT: self.offsets.offset_commit,
            ApiKey.OFFSET_FETCH: self.offsets.offset_fetch,
            ApiKey.OFFSET_DELETE: self.offsets.offset_delete,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self.consumer.consumer_group_heartbeat,
            ApiKey.CONSUMER_GROUP_DESCRIBE: self.consumer.consumer_group_describe,
            ApiKey.STREAMS_GROUP_HEARTBEAT: self.streams.streams_group_heartbeat,
            ApiKey.STREAMS_GROUP_DESCRIBE: self.streams.streams_group_describe,
            ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: self.streams.streams_group_topology_description_update,
            ApiKey.SHARE_GROUP_HEARTBEAT: self.share.share_group_heartbeat,
            ApiKey.SHARE_GROUP_DESCRIBE: self.share.share_group_describe,
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: self.share_offsets.describe,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS: self.share_offsets.alter,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS: self.share_offsets.delete,
            ApiKey.TXN_OFFSET_COMMIT: self.transactional_offsets.txn_offset_commit,
            ApiKey.LANE_DECIDE: self.lanes.decide,
            ApiKey.LANE_GROUP: self.lanes.group,
            ApiKey.LANE_LIST: self.lanes.list,
        }

    @property
    def config(self) -> CoordinatorConfig:
        """The settings now in force."""
        return self._context.config

    def reconfigure(self, config: CoordinatorConfig) -> None:
        """From now on: what groups of the newer protocols decide, and how long records may be. The rest stays."""
        self._context.config = config
        for shard in self._made:
            shard.reconfigure(config)

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        """Answer a request of the GROUP route.

        Raises KafkaError NOT_COORDINATOR when the request was forwarded for another leader epoch of the shard than the
        present one: a commit delayed on a connection could overwrite newer ones.
        """
        if context.leader_epoch >= 0:
            await self._require_leader_epoch(getattr(request, "group_id", ""), context.leader_epoch)
        return await self._handlers[api_key](request, context)

    async def prepare(self, group_id: str) -> None:
        """Load the group's shard, creating the offsets topic if there is none. Raises KafkaError (FindCoordinator)."""
        await self.directory.get(group_id)

    async def _require_leader_epoch(self, group_id: str, leader_epoch: int) -> None:
        shard = self.directory.find(group_id)
        if shard is None and group_id:
            with contextlib.suppress(KafkaError):  # the API's own handler reports it
                shard = await self._context.existing(group_id)
        if shard is not None and group_id and shard.state_log.log.leader_epoch != leader_epoch:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR,
                f"the group's shard has the leader epoch {shard.state_log.log.leader_epoch}, not {leader_epoch}",
            )

    def resign(self, shard: int) -> None:
        """The shard's partition has another owner now."""
        self.directory.resign(shard)

    def after_stall(self) -> None:
        """This process was stalled: members must not be expired for heartbeats that it could not read."""
        for shard in self.directory.ready.values():
            shard.after_stall()

    async def close(self) -> None:
        """Answer all waiting requests with an error and stop."""
        await self.directory.close(snapshot_records_min=_CLOSE_SNAPSHOT_RECORDS_MIN)

    def image_changed(self, old: Topics, new: Topics) -> None:
        """Call after each new image: groups subscribed to changed topics look at them with their next heartbeat."""
        changed = changes(old, new)
        if changed.names:
            gone = {one: topic.name for one, topic in old.topics_by_id.items() if one not in new.topics_by_id}
            for shard in self.directory.ready.values():
                shard.topics_changed(changed)
                if gone:
                    self.lanes.topics_gone(shard, gone)
                    self.share_states.topics_gone(shard, gone)

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Delete the offsets of deleted topics; shards that are not loaded hide them by topic id until they expire."""
        doomed = frozenset(names)
        for shard in self.directory.ready.values():
            records = shard.offsets.delete_topics(doomed)
            if records:
                shard.append(records)

    # ---------------------------------------------------------------- inside

    def _loaded(self, shard: GroupShard) -> None:
        self.share_states.resume(shard)
        self.lanes.loaded(shard)

    def _groups_by_state(self) -> dict[str, int]:
        kinds = (*GroupState, *ConsumerGroupState, *StreamsGroupState)
        counts = {state.value: 0 for state in kinds if state is not GroupState.DEAD}
        for shard in self.directory.ready.values():
            counts[GroupState.EMPTY.value] += sum(
                group_id not in shard.groups
                and group_id not in shard.consumer.groups
                and group_id not in shard.streams.groups
                and group_id not in shard.share.groups
                for group_id in shard.offsets.group_ids()
            )
            states = [group.state.value for group in shard.groups.values()]
            states += (group.state.value for group in shard.consumer.groups.values())
            states += (group.state.value for group in shard.streams.groups.values())
            states += (group.state.value for group in shard.share.groups.values())
            for state in states:
                counts[state] += 1
        return counts

    def _groups_by_type(self) -> dict[str, int]:
        shards = list(self.directory.ready.values())
        return {
            "classic": sum(len(shard.groups) for shard in shards),
            "consumer": sum(len(shard.consumer.groups) for shard in shards),
            "share": sum(len(shard.share.groups) for shard in shards),
            "streams": sum(len(shard.streams.groups) for shard in shards),
        }

    def positions(self) -> Iterator[tuple[str, int, Callable[[], Mapping[str, Mapping[int, int]]]]]:
        """Each group of this node, how many offsets it has committed, and what gives them by topic and partition. Offsets
        may change meanwhile: each group's are as of its turn.
        """
        for shard in list(self.directory.ready.values()):
            offsets = shard.offsets
            for group_id in offsets.group_ids():
                yield group_id, offsets.count_of(group_id), partial(offsets.positions, group_id)

    def _offset_count(self) -> int:
        return sum(shard.offsets.count for shard in self.directory.ready.values())
