"""The two clients in C that only this benchmark has: many small transactions, and a topic read under an isolation level."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from bench.core.client import build, measured
from bench.groups.target import Target
from bench.loads.client import LIBRARIES

TRANSACTIONS: Final = Path(__file__).with_name("transactions.c")
READ: Final = Path(__file__).with_name("read.c")


class Transactor:
    """`directory`: where the program is put. Raises LoadFailed when it cannot be built."""

    def __init__(self, directory: Path) -> None:
        self._program = build(TRANSACTIONS, directory / "transactions", LIBRARIES)

    def transact(
        self,
        target: Target,
        topic: str,
        partitions: int,
        *,
        producers: int,
        records: int,
        record_bytes: int,
        warm_s: float,
        seconds: float,
        rate_per_s: float = 0,
        is_half: bool = False,
    ) -> dict[str, Any]:
        """Transactions of so many records each: `rate_per_s` of them from all producers together, or (0) one behind the
        other from each. `is_half`: half messages, each with the record that commits it, in place of transactions; bmq alone.
        `all`: those of the whole run. Raises LoadFailed.
        """
        command = [
            *(str(self._program), "--bootstrap", target.bootstrap, "--topic", topic, "--partitions", str(partitions)),
            *("--producers", str(producers), "--records", str(records), "--record-bytes", str(record_bytes)),
            *("--rate", str(rate_per_s), "--warm-s", str(warm_s), "--seconds", str(seconds)),
            *(["--half"] if is_half else []),
        ]
        return measured(command, target.pids)


class Reader:
    """`directory`: where the program is put. Raises LoadFailed when it cannot be built."""

    def __init__(self, directory: Path) -> None:
        self._program = build(READ, directory / "read", LIBRARIES)

    def read(self, target: Target, topic: str, partitions: int, isolation: str) -> dict[str, Any]:
        """The whole topic by a consumer that has read it once: `seconds` and `records`. Raises LoadFailed."""
        command = [
            *(str(self._program), "--bootstrap", target.bootstrap, "--topic", topic, "--partitions", str(partitions)),
            *("--isolation", isolation, "--passes", "2"),
        ]
        found = measured(command, target.pids)
        return {**found, "seconds": found["seconds"][-1], "records": found["records"][-1]}
