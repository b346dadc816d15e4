"""What kind of history a seed is: how bad the store, how small the segments, how often what goes wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass

from bmq.broker.context import BrokerSettings
from bmq.log.config import LogConfig
from bmq.log.store import Durability
from tests.fakes.store import Faults


@dataclass(slots=True)
class Chances:
    """What kind of history this seed is."""

    faults: Faults
    round_s: float
    pause_at_create: float
    pause_at_start: float
    power_loss: float
    node_loss: float
    config: LogConfig
    settings: BrokerSettings

    @classmethod
    def of(cls, dice: random.Random) -> Chances:
        mood = dice.choice(("good", "good", "slow", "bad", "bad"))
        faults = Faults(request_s=(0.0002, 0.002), append_s=(0.0001, 0.002), recover_lease_s=(0.01, 0.1))
        faults.recover_lease_rate = dice.choice((0.0, 0.3))
        if mood != "good":
            faults.request_s = (0.0002, 0.01)
            faults.append_s = (0.0001, 0.02)
        if mood == "bad":
            faults.unavailable_rate = faults.lost_reply_rate = faults.late_reply_rate = 0.01
            faults.late_reply_s = (0.05, 0.5)
            faults.half_takeover_rate = 0.1
            faults.break_writer_rate = dice.choice((0.01, 0.1))
            faults.half_mend_rate = 0.1
        faults.fewer_nodes_rate = dice.choice((0.0, 0.0, 0.1))
        faults.ack_timeout_s = 0.05
        power_loss = dice.choice((0.0, 0.05, 0.15))
        durability = Durability.HSYNC if dice.random() < 0.3 else Durability.HFLUSH
        return cls(
            faults,
            0.15 if mood == "good" else 0.4,
            dice.choice((0.0, 0.05, 0.15)),
            dice.choice((0.0, 0.3, 0.6)),
            power_loss,
            dice.choice((0.0, 0.3, 0.7)),
            LogConfig(
                segment_bytes=dice.choice((700, 1500, 4000, 100_000)),
                segment_idle_close_ms=dice.choice((30, 200, 60_000)),
                segment_index_interval_bytes=dice.choice((1, 500)),
                file_delete_delay_ms=100,
                max_message_bytes=1_000,
                min_insync_replicas=dice.choice((1, 2, 2, 3)),
                durability=durability,
            ),
            BrokerSettings(
                tail_cache_bytes_max=dice.choice((2_000, 20_000)),
                append_bytes_max=8_000,
                segment_first_bytes=1_000,
                appends_outstanding_max=dice.choice((1, 3, 64)),
                backoff_max_s=0.3,
                storage_wait_max_s=dice.choice((0.2, 30.0)),
                replicas_retry_s=0.2,
                min_insync_retry_s=0.05,
                upkeep_interval_s=0.02,
                stop_wait_max_s=1.0,
            ),
        )
