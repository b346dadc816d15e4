"""How many records a subscriber has asked for, and which it holds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bmq.gateway.failure import GatewayFailed, invalid
from bmq.gateway.held_records import HeldRecord


class Credit:
    """`records_max`: that may be asked for and not delivered."""

    def __init__(self, records_max: int) -> None:
        self._records_max = records_max
        self.records = 0

    def add(self, records: int) -> None:
        """Raises GatewayFailed: too much credit."""
        if self.records + records > self._records_max:
            raise GatewayFailed(
                "RESOURCE_EXHAUSTED",
                f"{self.records + records} records of credit are more than {self._records_max}; ask for fewer at a time",
            )
        self.records += records

    def spend(self, records: int) -> None:
        if records > self.records:
            raise ValueError(f"{records} records were delivered for a credit of {self.records}")
        self.records -= records


class Deliveries:
    """What a subscriber of a group holds: delivered and not settled. `records_max`: as many as it may hold."""

    def __init__(self, records_max: int) -> None:
        self._records_max = records_max
        self._held: dict[int, HeldRecord] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def room(self) -> int:
        """How many records more it may hold."""
        return self._records_max - len(self._held)

    def deliver(self, record: HeldRecord) -> int:
        """The id of this delivery."""
        self._last_id += 1
        self._held[self._last_id] = record
        return self._last_id

    def settle(self, ids: Sequence[int]) -> tuple[list[tuple[int, HeldRecord]], list[int]]:
        """Take these out. Returns what was held, and the ids that were settled or withdrawn before.

        Raises GatewayFailed for an id that was never delivered, or twice in the request; then nothing is taken out.
        """
        if len(set(ids)) < len(ids):
            raise invalid("a delivery id stands twice in the request; settle each once")
        unknown = next((one for one in ids if not 0 < one <= self._last_id), None)
        if unknown is not None:
            raise invalid(f"delivery {unknown} was never made on this stream")
        gone = [one for one in ids if one not in self._held]
        return [(one, self._held.pop(one)) for one in ids if one in self._held], gone

    def withdraw(self, gone: Iterable[HeldRecord]) -> None:
        """Take these records out: they belong to another subscriber now."""
        places = {(one.topic, one.partition, one.offset) for one in gone}
        for key in [k for k, r in self._held.items() if (r.topic, r.partition, r.offset) in places]:
            del self._held[key]

    def clear(self) -> list[HeldRecord]:
        """All that was held; it is no longer."""
        held = list(self._held.values())
        self._held.clear()
        return held
