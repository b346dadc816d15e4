"""What kind of cluster a seed has: which roles its nodes play, how bad its store is, how early thresholds are reached."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bmq.coordinator.transactions.transaction import MAX_EPOCH
from tests.fakes.store import Faults

ALL_ROLES = "proxy,broker,coordinator,controller"
LAYOUTS: tuple[Mapping[int, str], ...] = (
    dict.fromkeys((1, 2, 3), ALL_ROLES),
    dict.fromkeys((1, 2, 3), ALL_ROLES),
    # Proxies that own nothing beside nodes that do everything.
    {**dict.fromkeys((1, 2), ALL_ROLES), 3: "proxy", 4: "proxy,controller"},
    # Each role in processes of its own: every read and every produce goes from node to node.
    {1: "proxy", 2: "proxy", 3: "broker,coordinator", 4: "broker,coordinator", 5: "controller", 6: "controller"},
    # Brokers without coordinators: shards follow their partitions all the same.
    {1: "proxy,controller", 2: "broker", 3: "broker,coordinator", 4: "proxy,broker,coordinator"},
)


@dataclass(frozen=True, slots=True)
class ClusterKind:
    """Snapshot thresholds are records since the last one; `visits_per_s`: questions to anybody."""

    roles: Mapping[int, str]
    faults: Faults
    coordinator_snapshot_records: int
    metadata_snapshot_records: int
    metadata_answer_age_records: int
    last_producer_epoch: int
    segment_idle_close_ms: int
    is_deleting: bool  # DeleteRecords now and then
    is_making_topics: bool
    are_data_nodes_lost: bool
    min_insync_replicas: int
    rounds: int
    between_s: float
    pace_s: float  # a producer's, on average

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(node_id for node_id, roles in self.roles.items() if "broker" in roles)

    @classmethod
    def of(cls, dice: random.Random) -> ClusterKind:
        return cls(
            roles=dice.choice(LAYOUTS),
            faults=_faults(dice),
            coordinator_snapshot_records=dice.choice((3, 20, 10_000)),
            metadata_snapshot_records=dice.choice((2, 10, 50_000)),
            metadata_answer_age_records=dice.choice((0, 3, 5_000)),
            last_producer_epoch=MAX_EPOCH,
            segment_idle_close_ms=dice.choice((300, 60_000)),
            is_deleting=dice.random() < 0.3,
            is_making_topics=dice.random() < 0.3,
            are_data_nodes_lost=dice.random() < 0.4,
            min_insync_replicas=dice.choice((1, 2, 2, 3)),
            rounds=10,
            between_s=dice.choice((0.3, 0.8, 1.5)),
            pace_s=dice.choice((0.1, 0.3, 0.6)),
        )

    def settings(self) -> dict[str, Any]:
        return {
            "kafka": {
                "offsets.topic.num.partitions": "2",
                "group.initial.rebalance.delay.ms": "0",
            },
            "broker": {"tail_cache_bytes_max": 100_000, "append_bytes_max": 400_000, "upkeep_interval_s": 0.2},
            "fetch": {"read_cache_bytes_max": 400_000, "read_chunk_bytes": 65_536, "read_ahead_bytes_max": 200_000},
            "cluster": {
                "zookeeper_session_ms": 2_000,
                "metadata_wait_max_ms": 1_000,
                "shutdown_wait_max_ms": 3_000,
                "failovers_at_first": 2,  # of a few partitions, as of thousands
            },
        }

    def topic_configs(self) -> dict[str, str]:
        return {
            "bmq.segment.idle.close.ms": str(self.segment_idle_close_ms),
            "min.insync.replicas": str(self.min_insync_replicas),
        }


def _faults(dice: random.Random) -> Faults:
    mood = dice.choice(("good", "good", "slow", "bad"))
    faults = Faults(request_s=(0.0002, 0.002), append_s=(0.0001, 0.001), recover_lease_s=(0.1, 1.0))
    if mood != "good":
        faults.append_s = (0.0001, 0.05)
        faults.request_s = (0.0002, 0.01)
    if mood == "bad":
        faults.unavailable_rate = 0.003
        faults.lost_reply_rate = 0.003
        faults.late_reply_rate = 0.003
        faults.half_takeover_rate = 0.1
        faults.recover_lease_rate = 0.1
        faults.break_writer_rate = 0.005
        faults.half_mend_rate = 0.1
    return faults
