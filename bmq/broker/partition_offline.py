"""The error for callers of a partition that is offline."""

from __future__ import annotations

from bmq.log.damage import Damage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError


class PartitionOffline(KafkaError):
    """The partition is offline until an operator has decided (rules 5 and 25)."""

    def __init__(self, reason: str, damage: Damage | None) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"the partition is offline: {reason}")
        self.damage = damage
